"""A worker's memory of requests that ended just now: that there are some, and their traces."""

from __future__ import annotations

from collections.abc import Collection

from consumer.features.outgoing.recent_runs import RecentRuns
from consumer.loop.mapping import Run
from feedback.records.envelope import TRACEPARENT, Record

LIMIT = 10_000
# Anybody may have written the header; one of this trace format has 55.
TRACE_LIMIT_BYTES = 256


class RecentEnds(RecentRuns[bytes]):
    """Remembers the trace context of each, where there is one. Safe to share between threads.

    Args:
        limit: how many trace contexts are remembered at most; the oldest is forgotten first.
    """

    def __init__(self, topics: Collection[str], limit: int = LIMIT) -> None:
        super().__init__(limit)
        self._topics = frozenset(topics)

    def ended(self, run: Run, record: Record) -> None:
        """Hear of a request whose final row is in the journal; returns at once."""
        if record.topic not in self._topics:
            return
        for name, value in record.headers:
            if name == TRACEPARENT and value is not None and len(value) <= TRACE_LIMIT_BYTES:
                self.remember(run, value)
                break
        self.news.set()
