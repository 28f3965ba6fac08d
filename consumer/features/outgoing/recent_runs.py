"""A worker's memory of runs that ended just now, and whose records are not written yet.

Only a shortcut: the writer finds a run that is forgotten here in the journal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from consumer.loop.mapping import Run
from feedback.clock import monotonic_s

Fact = TypeVar("Fact")


class _Entry(NamedTuple, Generic[Fact]):
    fact: Fact
    size: int
    at_s: float


class RecentRuns(Generic[Fact]):
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
        self._entries: dict[Run, _Entry[Fact]] = {}
        self._lock = threading.Lock()
        self.news = threading.Event()

    def remember(self, run: Run, fact: Fact, *, size: int = 1) -> None:
        """Remember a fact of a run whose row is in the journal."""
        with self._lock:
            self._drop(run)
            self._entries[run] = _Entry(fact, size, monotonic_s())
            self._size += size
            while self._size > self._limit:
                self._drop(next(iter(self._entries)))

    def of(self, run: Run) -> Fact | None:
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
