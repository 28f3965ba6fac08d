"""A worker's memory of runs that have ended here, and whose rows owe a record."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from consumer.loop.mapping import Run
from feedback.clock import monotonic_s

Fact = TypeVar("Fact")


class _Kept(NamedTuple, Generic[Fact]):
    fact: Fact
    size: int
    at_s: float


class RecentRuns(Generic[Fact]):
    """Remembers a fact about each of the latest runs. Safe to share between threads.

    Args:
        limit: the size of all facts together at most; the oldest is forgotten first.

    Attributes:
        news: set when there is something new to write.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: dict[Run, _Kept[Fact]] = {}
        self._lock = threading.Lock()
        self.news = threading.Event()

    def remember(self, run: Run, fact: Fact, *, size: int) -> None:
        """Keep a fact whose row is in the journal; returns at once."""
        with self._lock:
            self._drop(run)
            self._kept[run] = _Kept(fact, size, monotonic_s())
            self._size += size
            while self._size > self._limit:
                self._drop(next(iter(self._kept)))

    def of(self, run: Run) -> Fact | None:
        """Return the fact about a run, where it is still known."""
        with self._lock:
            kept = self._kept.get(run)
        return None if kept is None else kept.fact

    def forget(self, runs: Iterable[Run]) -> None:
        """Let go of these runs: their records are written."""
        with self._lock:
            for run in runs:
                self._drop(run)

    def forget_before(self, at_s: float) -> None:
        """Let go of facts from before this monotonic time: no row of theirs waits."""
        with self._lock:
            for run in [run for run, one in self._kept.items() if one.at_s < at_s]:
                self._drop(run)

    def _drop(self, run: Run) -> None:
        one = self._kept.pop(run, None)
        if one is not None:
            self._size -= one.size
