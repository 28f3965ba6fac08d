"""Sends requests of keys to a stage, and looks at the order in which they ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from feedback.status import State
from tests.consumer.stage import Stage
from tests.eventually import eventually

MODULE = "tests.consumer.loop.order.ordered_handlers"
WORKER = {"handlers": [MODULE], "processes": 2, "slots_per_process": 4}


class Sender:
    """Sends requests of some keys, each with its number among those of its key."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._numbers: dict[str, int] = defaultdict(int)
        self.sent: list[str] = []

    def send(self, key: str, **body: Any) -> str:
        """Send the next request of a key; return its id."""
        self._numbers[key] += 1
        value = {"number": self._numbers[key], **body}
        topic = self._stage.topics["booked"]
        self.sent.append(str(self._stage.client.send(value, key=key, topic=topic).request_id))
        return self.sent[-1]

    def all_succeed(self, *, resend: bool = False) -> None:
        """Wait until all have, resending what is LOST only where a worker died."""
        for name in self.sent:
            status = self._stage.client.wait(name, timeout_s=60, resend=resend)
            assert status.state is State.SUCCEEDED, (name, status)


def steps(stage: Stage) -> dict[str, list[tuple[str, int]]]:
    """Return what the handlers noted, by key: (start or end, number), as it happened."""
    noted: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for step in stage.runs(at=None):
        if "key" in step:
            noted[step["key"]].append((step["at"], step["number"]))
    return noted


def in_order(numbers: Sequence[int]) -> list[tuple[str, int]]:
    """Return the steps of runs one after the other."""
    return [(at, number) for number in numbers for at in ("start", "end")]


def started(stage: Stage, key: str, number: int, *, runs: int = 1) -> None:
    """Wait until a request has begun that often."""
    eventually(
        lambda: steps(stage)[key].count(("start", number)) >= runs,
        what=f"start of {key} {number}",
    )
