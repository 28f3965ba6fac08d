"""A stage of a handler that collapses, and a burst of requests of one key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from feedback.status import State
from feedback.statuses import Status
from tests.consumer.running import RunningWorker
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.stack import Servers

MODULE = "tests.consumer.features.collapse.collapsing_handlers"
LIMIT_S = 60.0


class Burst:
    """Sends requests of one key, and looks at what became of them.

    Args:
        name: the handler.
    """

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage
        self._name = name
        self._topic = stage.topics[name]
        self.sent: list[str] = []

    def send(self, *, key: str = "k", deadline_s: float | None = None, **body: Any) -> str:
        """Send one more and return its id."""
        value = {"number": len(self.sent), **body}
        sent = self.stage.client.send(value, key=key, topic=self._topic, deadline_s=deadline_s)
        self.sent.append(str(sent.request_id))
        return self.sent[-1]

    def many(self, count: int, **body: Any) -> list[str]:
        """Send as many and return their ids."""
        return [self.send(**body) for _ in range(count)]

    def fill(self, count: int, **body: Any) -> list[str]:
        """Send as many at once, as a program does that waits for none of them."""
        for number in range(count):
            self.sent.append(f"burst-{number:04d}")
            self.stage.post(
                json.dumps({"number": number, **body}).encode(),
                headers=[("onceward-request-id", self.sent[-1].encode())],
                handler=self._name,
                key=b"k",
            )
        self.stage.flush()
        return self.sent

    def ends(self) -> list[Status]:
        """Return how all of them ended, in the order in which they were sent."""
        return [self.stage.final(one, timeout_s=LIMIT_S) for one in self.sent]

    def states(self) -> list[tuple[State, str]]:
        """Return state and, of what was skipped, by whom or why."""
        return [(one.state, one.by or one.code or "") for one in self.ends()]

    def runs(self) -> list[str]:
        """Return the ids of those that ran, in order."""
        return [one["request_id"] for one in self.stage.runs(at="start")]

    def asked(self) -> list[str]:
        """Return the ids of those about which the predicate was asked, in order."""
        return [one["request_id"] for one in self.stage.runs(at="asked")]

    def has_begun(self, name: str, *, times: int = 1) -> None:
        """Wait until it has begun to run."""
        eventually(lambda: self.runs().count(name) >= times, what=f"start of {name}")

    def has_read_all(self, worker: RunningWorker) -> None:
        """Wait until a worker has all that were sent, and has committed them."""
        last = self.stage.seen(self.sent[-1], State.ACCEPTED)
        assert last.worker == worker.worker_id
        count = len(self.sent)
        eventually(lambda: self.stage.committed(self._topic, 0) == count)


@contextmanager
def open_burst(
    servers: Servers, journal_url: str, folder: Path, name: str, **worker: Any
) -> Iterator[Burst]:
    """Yield a burst of a handler on a stage of its own, with one partition and one slot."""
    settings = {"handlers": [MODULE], "processes": 1, "slots_per_process": 1} | worker
    with open_stage(
        servers=servers,
        journal_url=journal_url,
        folder=folder,
        handlers=(name,),
        partitions=1,
        worker=settings,
    ) as stage:
        yield Burst(stage, name)
