"""The group's open doubts, counted now and then by one of its workers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from consumer.journal.doubts import DoubtCount
from consumer.journal.pacing import pause_unless_quick_s
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from feedback.clock import monotonic_s

# One of all workers counts so often.
EVERY_S = 15.0


class OpenDoubts(NamedTuple):
    """The open doubts of a topic, now."""

    topic: str
    requests: int
    oldest_s: float


class DoubtReading(NamedTuple):
    """A count, and the monotonic time at which it was asked."""

    counts: Sequence[DoubtCount]
    asked_s: float


class DoubtRows(Protocol):
    """Counts the open doubts of the group; None where it is another worker's turn."""

    def doubts(self, every_ms: int) -> list[DoubtCount] | None: ...


def make(core: Core) -> Sequence[Feature]:
    """Return the count, where somebody can read it and the journal is the group's."""
    if not core.settings.worker.http_port or not core.outlives:
        return ()
    return (DoubtWatch(core.sweeps, core.by_topic, lease_s=core.settings.journal.lease_s),)


class DoubtWatch(Feature):
    """Counts them in the sweeper's thread when it is this worker's turn.

    Args:
        rows: the journal, for that thread.
        topics: those that are shown without a doubt as well.
        lease_s: a worker sweeps several times in it.
    """

    def __init__(self, rows: DoubtRows, topics: Collection[str], *, lease_s: float) -> None:
        self._rows = rows
        self._topics = frozenset(topics)
        self._kept_s = 2 * EVERY_S + lease_s
        self._again_s = 0.0
        self._reading: DoubtReading | None = None

    def sweep(self) -> None:
        """Count, where it is time and this worker's turn.

        Raises:
            JournalUnavailable: a later sweep counts.
        """
        began_s = monotonic_s()
        if began_s < self._again_s:
            return
        try:
            counts = self._rows.doubts(int(EVERY_S * 1000))
        finally:  # also where the database gave up on it: the rest of the next sweeps goes on
            self._again_s = began_s + pause_unless_quick_s(monotonic_s() - began_s)
        if counts is not None:
            self._reading = DoubtReading(counts, began_s)

    def seen(self, now_s: float) -> list[OpenDoubts]:
        """Return the doubts by topic; none where another worker counted since. Any thread."""
        return doubts_now(self._reading, self._topics, now_s=now_s, kept_s=self._kept_s)


def doubts_now(
    reading: DoubtReading | None, topics: Collection[str], *, now_s: float, kept_s: float
) -> list[OpenDoubts]:
    """Return a count as it stands now: the oldest doubt has grown older since.

    Args:
        reading: the last count, if any.
        topics: those that are shown without a doubt as well.
        kept_s: an older count is another worker's business by now.
    """
    if reading is None or now_s - reading.asked_s > kept_s:
        return []
    since_s = now_s - reading.asked_s
    found = {
        one.topic: OpenDoubts(one.topic, one.requests, max(0, one.oldest_ms) / 1000 + since_s)
        for one in reading.counts
    }
    return [
        found.get(topic, OpenDoubts(topic, 0, 0.0)) for topic in sorted({*topics, *found.keys()})
    ]
