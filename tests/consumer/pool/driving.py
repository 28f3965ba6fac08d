"""Driving a pool in a test: jobs in, events awaited with a deadline."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from consumer.pool import (
    ChildDied,
    ChildReady,
    Event,
    Finished,
    Job,
    Outcome,
    Pool,
    PoolSettings,
)

Kind = TypeVar("Kind")

HANDLERS = "tests.consumer.pool.handlers_in_child"
LIMIT_S = 60.0


def settings(**changes: Any) -> PoolSettings:
    """Return settings of a small pool, whose children have time to start on a slow machine."""
    small: dict[str, Any] = {
        "handlers": (HANDLERS,),
        "group": "payments",
        "processes": 1,
        "start_timeout_s": 600.0,
        "worker_id": "w1",
    }
    return PoolSettings(**(small | changes))


def job(topic: str, body: object = None, *, request_id: str = "r1", **changes: Any) -> Job:
    """Return a job whose value is the body as JSON."""
    facts: dict[str, Any] = {
        "generation": 1,
        "partition": 3,
        "offset": 2**40,
        "timestamp": 1_700_000_000_000,
        "key": None,
        "value": json.dumps(body).encode(),
        "headers": (),
        "attempt": 1,
        "deadline_at": 1_700_003_600_000,
    }
    return Job(request_id=request_id, topic=topic, **{**facts, **changes})


def fifo(folder: Path) -> str:
    """Return the path of a new FIFO for the topic `hold`."""
    path = folder / f"fifo-{len(list(folder.glob('fifo-*')))}"
    os.mkfifo(path)
    return str(path)


class Driven:
    """A pool and every event it has told."""

    def __init__(self, chosen: PoolSettings) -> None:
        self.pool = Pool(settings=chosen)
        self.events: list[Event] = []
        self.pool.start()

    def until(self, condition: Callable[[], Kind], *, timeout_s: float = LIMIT_S) -> Kind:
        """Poll until the condition on the events holds, and return its value."""
        deadline_s = time.monotonic() + timeout_s
        while not (value := condition()):
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"not within {timeout_s} s; events: {self.events[-20:]}"
            # A start alone ends no poll.
            self.events += self.pool.poll(min(left_s, 0.05))
        return value

    @property
    def children(self) -> int:
        """How many children there are, starting, serving, retired or not yet buried."""
        return len(self.pool._supervisor.children)

    def told(self, kind: type[Kind]) -> list[Kind]:
        """Return the events of this kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def pids(self, count: int) -> list[int]:
        """Wait for the children to be ready."""
        self.until(lambda: len(self.told(ChildReady)) >= count)
        return [event.pid for event in self.told(ChildReady)]

    def run(self, jobs: Sequence[Job]) -> dict[str, Outcome]:
        """Dispatch the jobs and wait for all outcomes."""
        self.pool.dispatch(jobs)
        ids = {one.request_id for one in jobs}
        self.until(lambda: ids <= self.outcomes().keys())
        return self.outcomes()

    def outcomes(self) -> dict[str, Outcome]:
        """Return the outcomes so far by request id."""
        return {event.request_id: event.outcome for event in self.told(Finished)}

    def death(self) -> ChildDied:
        """Wait for the death of a child."""
        self.until(lambda: self.told(ChildDied))
        return self.told(ChildDied)[0]

    def kill(self) -> None:
        """Kill the pool and keep its last events."""
        self.events += self.pool.kill()
