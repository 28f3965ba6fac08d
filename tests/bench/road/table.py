"""Where each millisecond of a request goes: medians of the steps of its road."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.table import Table

from tests.bench.measure.figures import percentile

Marks = Mapping[str, float]


class Step(NamedTuple):
    """From one mark to the next one; the steps without `beside` follow each other."""

    begin: str
    end: str
    what: str
    beside: bool = False


STEPS = (
    Step("sending", "pending", "client: PENDING in Redis"),
    Step("pending", "handed", "client: handed to the Kafka library"),
    Step("handed", "polled", "library, broker, fetch, poll"),
    Step("polled", "accepted", "ACCEPTED sent to Redis"),
    Step("accepted", "committed", "commit of the offset, answer of Redis"),
    Step("committed", "claiming", "wake-up of the loop"),
    Step("claiming", "claimed", "claim in the journal"),
    Step("claimed", "dispatched", "dispatch"),
    Step("dispatched", "handled", "child's start of the handler"),
    Step("handled", "heard", "outcome to the loop"),
    Step("heard", "finishing", "gathering"),
    Step("finishing", "finished", "finish in the journal"),
    Step("finished", "telling", "wake-up of the status writer"),
    Step("telling", "told", "final status in Redis", beside=True),
    Step("telling", "seen", "event, wake-up of the client, its read"),
    Step("woken", "seen", "of that: after the event", beside=True),
    Step("handled", "seen", "from the handler's end to the end of wait", beside=True),
    Step("handed", "acknowledged", "client: acknowledged by the broker", beside=True),
    Step("acknowledged", "watching", "client: subscribed, first read", beside=True),
    Step("sending", "seen", "all", beside=True),
)


def read(folder: Path) -> dict[str, dict[str, float]]:
    """Return the time of the first mark of each step, by request."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for path in folder.glob("*.marks"):
        for line in path.read_text(encoding="utf-8").splitlines():
            step, request_id, at_s = line.split()
            marks = found[request_id]
            marks[step] = min(float(at_s), marks.get(step, float("inf")))
    return found


def took_ms(roads: Iterable[Marks], step: Step) -> list[float]:
    """Return how long a step took, of each request that has both of its marks.

    >>> took_ms([{"handled": 1.0, "heard": 1.25}, {"handled": 1.0}], STEPS[9])
    [250.0]
    """
    whole = [one for one in roads if step.begin in one and step.end in one]
    return [(one[step.end] - one[step.begin]) * 1000 for one in whole]


def figures(roads: Sequence[Marks]) -> dict[str, tuple[float, float]]:
    """Return p50 and p99 of each step, in ms."""
    found = {one.what: took_ms(roads, one) for one in STEPS}
    return {
        what: (round(percentile(took, 50), 3), round(percentile(took, 99), 3))
        for what, took in found.items()
        if took
    }


def table(found: Mapping[str, Mapping[str, tuple[float, float]]]) -> Table:
    """Return the table of the steps, a column for each trial."""
    made = Table(title="The road of a request: p50 / p99 of each step in ms")
    made.add_column("step", no_wrap=True)
    for name in found:
        made.add_column(name, justify="right")
    for step in STEPS:
        name = f"({step.what})" if step.beside else step.what
        cells = [one.get(step.what) for one in found.values()]
        texts = ("" if one is None else f"{one[0]:.2f} / {one[1]:.1f}" for one in cells)
        made.add_row(name, *texts)
    return made
