"""A worker's memory of requests that have just ended: that there are some, and their traces."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from typing import NamedTuple

from consumer.loop.mapping import Run
from feedback.clock import monotonic_s
from feedback.records.envelope import TRACEPARENT, Record

LIMIT = 10_000
# Anybody may have written the header; one of this trace format has 55.
TRACE_LIMIT_BYTES = 256


class _Trace(NamedTuple):
    parent: bytes
    at_s: float


class News:
    """Wakes the writer of outcomes. Safe to share between threads.

    Args:
        topics: those whose outcomes are wanted.
        limit: how many trace contexts are remembered at most; the oldest is forgotten first.

    Attributes:
        news: set when there is something new to write.
    """

    def __init__(self, topics: Collection[str], limit: int = LIMIT) -> None:
        self._topics = frozenset(topics)
        self._limit = limit
        self._traces: dict[Run, _Trace] = {}
        self._lock = threading.Lock()
        self.news = threading.Event()

    def ended(self, run: Run, record: Record) -> None:
        """Hear of a request whose final row is in the journal; returns at once."""
        if record.topic not in self._topics:
            return
        for name, value in record.headers:
            if name == TRACEPARENT and value is not None and len(value) <= TRACE_LIMIT_BYTES:
                self._remember(run, value)
                break
        self.news.set()

    def traceparent(self, run: Run) -> bytes | None:
        """Return the trace context that the request came with, where it is still known."""
        with self._lock:
            trace = self._traces.get(run)
        return None if trace is None else trace.parent

    def forget(self, runs: Iterable[Run]) -> None:
        """Let go of these: their outcomes are written."""
        with self._lock:
            for run in runs:
                self._traces.pop(run, None)

    def forget_before(self, at_s: float) -> None:
        """Drop entries from before this monotonic time: they no longer wait."""
        with self._lock:
            for run in [run for run, one in self._traces.items() if one.at_s < at_s]:
                del self._traces[run]

    def _remember(self, run: Run, parent: bytes) -> None:
        with self._lock:
            self._traces[run] = _Trace(parent, monotonic_s())
            if len(self._traces) > self._limit:
                del self._traces[next(iter(self._traces))]
