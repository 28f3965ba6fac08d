"""Facts that are read apart: where one server is away, the others are shown all the same."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from feedback.errors import OncewardError

T = TypeVar("T")
# Each page asks at most so many readers at once.
THREADS = 16


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
