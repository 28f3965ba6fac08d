"""A worker's memory of its failures: the record, and the error of the handler.

Only a shortcut: a record that is forgotten here, or with the worker, is read again from its topic.
Class and stack of the error are lost then.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import NamedTuple

from consumer.loop.mapping import Run
from consumer.pool.outcome import Raised
from feedback.clock import monotonic_s
from feedback.records.envelope import Record

LIMIT_BYTES = 32 * 2**20
# The memory of an entry beside its bytes.
ENTRY_BYTES = 1000


class Failed(NamedTuple):
    """A record whose request has failed.

    Args:
        raised: the error of its handler, if there was one.
        at_s: monotonic time at which its row was in the journal.
    """

    record: Record
    raised: Raised | None
    at_s: float

    @property
    def size_bytes(self) -> int:
        """Its size in memory, nearly."""
        record = self.record
        headers = sum(len(name) + len(value) for name, value in record.headers)
        stack = len(self.raised.stack) if self.raised is not None else 0
        return ENTRY_BYTES + len(record.key or b"") + len(record.value or b"") + headers + stack


class Evidence:
    """Remembers the latest failures. Safe to share between threads.

    Args:
        limit_bytes: how much is remembered at most; the oldest is forgotten first.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._failed: dict[Run, Failed] = {}
        self._lock = threading.Lock()
        self.news = threading.Event()

    def failed(self, run: Run, record: Record, raised: Raised | None) -> None:
        """Hear of a failure whose row is in the journal; returns at once."""
        one = Failed(record, raised, monotonic_s())
        with self._lock:
            self._drop(run)
            self._failed[run] = one
            self._size_bytes += one.size_bytes
            while self._size_bytes > self._limit_bytes:
                self._drop(next(iter(self._failed)))
        self.news.set()

    def of(self, run: Run) -> Failed | None:
        """Return the remembered record and error of a failure."""
        with self._lock:
            return self._failed.get(run)

    def forget(self, runs: Iterable[Run]) -> None:
        """Let go of these: they have their letters."""
        with self._lock:
            for run in runs:
                self._drop(run)

    def forget_before(self, at_s: float) -> None:
        """Drop entries from before this monotonic time: they no longer wait."""
        with self._lock:
            for run in [run for run, one in self._failed.items() if one.at_s < at_s]:
                self._drop(run)

    def _drop(self, run: Run) -> None:
        one = self._failed.pop(run, None)
        if one is not None:
            self._size_bytes -= one.size_bytes
