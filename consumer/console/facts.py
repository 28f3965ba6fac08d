"""Facts that are read apart: where one server is away, the others are shown all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from feedback.clock import monotonic_s
from feedback.errors import OncewardError

T = TypeVar("T")
# Each page asks at most so many readers at once.
THREADS = 16
# A reading that is older hangs, or tells of the time before an act.
LONGEST_S = 30.0


@dataclass(frozen=True, slots=True)
class ReadFact(Generic[T]):
    """A fact, or why it is not known.

    Attributes:
        value: None where it is not known.
        why: a sentence; empty where it is known.
    """

    value: T | None
    why: str = ""


def read_fact(reader: Callable[[], T]) -> ReadFact[T]:
    """Return the reader's fact, or why it has none: a server is away, or refuses this user."""
    try:
        return ReadFact(reader())
    except OncewardError as error:
        return ReadFact(None, str(error))


def flat(fact: ReadFact[ReadFact[T]]) -> ReadFact[T]:
    """Return the fact that a reader knows, or why it is not known."""
    return ReadFact(None, fact.why) if fact.value is None else fact.value


class FactReaders:
    """Threads that read for the pages, so that a page waits for its slowest reader alone."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="onceward-console")

    def begin(self, reader: Callable[[], T]) -> Callable[[], ReadFact[T]]:
        """Let a thread read; return a function that waits for the fact."""
        return self._threads.submit(read_fact, reader).result

    def close(self) -> None:
        """Begin no more; do not wait for those at work."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class SharedReading(Generic[T]):
    """A reading that open pages share, so that a second one costs no server anything.

    Any thread may call it.
    """

    def __init__(self, reader: Callable[[], T]) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._last: Future[T] | None = None
        self._begun_at_s = self._ended_at_s = 0.0

    def of(self, *, within_s: float) -> T:
        """Return the reader's fact, or raise as it raises.

        Args:
            within_s: take a reading of another thread that has ended so short a time ago, or has
                not ended and is younger than `LONGEST_S`: a server that is slow is not asked once
                more meanwhile; 0 for one of its own.
        """
        with self._lock:
            taken = self._last if within_s and self._is_new(within_s) else None
            if taken is None:
                own: Future[T] = Future()
                self._last, self._begun_at_s = own, monotonic_s()
        if taken is not None:
            return taken.result()
        try:
            read = self._reader()
        except BaseException as error:  # whoever waits for it hears it, too
            self._end(own)
            own.set_exception(error)
        else:
            self._end(own)
            own.set_result(read)
        return own.result()

    def _is_new(self, within_s: float) -> bool:
        if self._last is None:
            return False
        if self._last.done():
            return monotonic_s() - self._ended_at_s < within_s
        return monotonic_s() - self._begun_at_s < LONGEST_S

    def _end(self, own: Future[T]) -> None:
        with self._lock:
            if self._last is own:
                self._ended_at_s = monotonic_s()
