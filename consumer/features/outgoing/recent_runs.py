"""A worker's memory of runs that ended just now, and whose records are not written yet.

Only a shortcut: the writer finds a run that is forgotten here in the journal. The record of a
failure is read again from its topic then; class and stack of its error are lost.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import Generic, NamedTuple, TypeVar

from consumer.journal import Run
from consumer.pool.outcome import RaisedError
from feedback.clock import monotonic_s
from feedback.records.envelope import TRACEPARENT, Record

FactT = TypeVar("FactT")


class _Entry(NamedTuple, Generic[FactT]):
    fact: FactT
    size: int
    at_s: float


class RecentRuns(Generic[FactT]):
    """Remembers a fact of each of the latest runs. Safe to share between threads.

    Args:
        limit: how much is remembered at most, in the unit of `remember`; the oldest is forgotten
            first.

    Attributes:
        news: set when there is something new to write.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._entries: dict[Run, _Entry[FactT]] = {}
        self._lock = threading.Lock()
        self.news = threading.Event()

    def remember(self, run: Run, fact: FactT, *, size: int = 1) -> None:
        """Remember a fact of a run whose row is in the journal."""
        with self._lock:
            self._drop(run)
            self._entries[run] = _Entry(fact, size, monotonic_s())
            self._size += size
            while self._size > self._limit:
                self._drop(next(iter(self._entries)))

    def of(self, run: Run) -> FactT | None:
        """Return the fact of a run, where it is still remembered."""
        with self._lock:
            one = self._entries.get(run)
        return None if one is None else one.fact

    def forget(self, runs: Iterable[Run]) -> None:
        """Let go of these: their records are written."""
        with self._lock:
            for run in runs:
                self._drop(run)

    def forget_before(self, at_s: float) -> None:
        """Drop entries from before this monotonic time: they no longer wait."""
        with self._lock:
            for run in [run for run, one in self._entries.items() if one.at_s < at_s]:
                self._drop(run)

    def _drop(self, run: Run) -> None:
        one = self._entries.pop(run, None)
        if one is not None:
            self._size -= one.size


LIMIT_BYTES = 32 * 2**20
# The memory of an entry beside its bytes.
ENTRY_BYTES = 1000


class RecentFailure(NamedTuple):
    """A record whose request has failed."""

    record: Record
    raised: RaisedError | None

    @property
    def size_bytes(self) -> int:
        """Its size in memory, nearly."""
        record = self.record
        headers = sum(len(name) + len(value) for name, value in record.headers)
        stack = len(self.raised.stack) if self.raised is not None else 0
        return ENTRY_BYTES + len(record.key or b"") + len(record.value or b"") + headers + stack


class RecentFailures(RecentRuns[RecentFailure]):
    """Remembers the latest failures. Safe to share between threads."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(limit_bytes)

    def failed(self, run: Run, record: Record, raised: RaisedError | None) -> None:
        """Hear of a failure whose row is in the journal; returns at once."""
        one = RecentFailure(record, raised)
        self.remember(run, one, size=one.size_bytes)
        self.news.set()


LIMIT = 10_000
# Anybody may have written the header; one of this trace format has 55.
TRACE_LIMIT_BYTES = 256


class RecentEnds(RecentRuns[bytes]):
    """Remembers the trace context of each, where there is one. Safe to share between threads."""

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
