"""Threads that wait for a change, with no lock that a signal handler could leave held.

A handler that raises in the main thread does so between any two of its steps. In `Condition` and
`Event` that may leave their lock held for good, or release one that is not held. Here each change
is a single call in C.
"""

from __future__ import annotations

import threading
from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from feedback.clock import monotonic_s

T = TypeVar("T")


class Wakeups:
    """The threads that wait for one thing. Safe to share between threads.

    >>> Wakeups().wait_for(lambda: False, 0.0)
    False
    """

    def __init__(self) -> None:
        self._waiting: list[SimpleQueue[None]] = []

    def notify(self) -> None:
        """Let those that wait look again."""
        for one in [*self._waiting]:
            one.put(None)

    def wait_for(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        """Return when something is so, or when the time is over; say which."""
        until_s, told = monotonic_s() + timeout_s, SimpleQueue[None]()
        self._waiting.append(told)
        try:
            while not is_so():
                told.get(timeout=max(0.0, until_s - monotonic_s()))
            return True
        except Empty:
            return False
        finally:
            self._waiting.remove(told)


def begin(thread: threading.Thread) -> None:
    """Start a thread by another one, since `Thread.start` waits by an `Event`.

    Raises:
        RuntimeError: there is no thread left.
    """
    start_new_thread(thread.start, ())


def call_apart(call: Callable[[], T], timeout_s: float) -> T:
    """Return the result of a call that another thread makes, or raise its error.

    It is for calls that a handler must not interrupt: kafka-python takes what is raised while it
    connects for the end of a task, and waits for ever. It goes on when its caller does not wait.

    >>> call_apart(lambda: 7, 1.0)
    7

    Raises:
        TimeoutError: it has not ended in time.
    """
    ended: list[tuple[T, None] | tuple[None, Exception]] = []
    wakeups = Wakeups()

    def make() -> None:
        try:
            ended.append((call(), None))
        except Exception as error:  # the caller raises it
            ended.append((None, error))
        wakeups.notify()

    begin(threading.Thread(target=make, name="onceward-call", daemon=True))
    if not wakeups.wait_for(lambda: bool(ended), timeout_s):
        raise TimeoutError
    result, error = ended.pop()
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
