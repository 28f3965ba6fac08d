"""Threads that wait for a change, with no lock that a signal handler could leave held.

A handler that raises in the main thread does so between any two of its steps. In `Condition` and
`Event` that may leave their lock held for good, or release one that is not held. Here each change
is a single call in C.
"""

from __future__ import annotations

import threading
from _thread import start_new_thread
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from feedback.clock import monotonic_s


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
        try:
            self._waiting.append(told)
            while not is_so():
                told.get(timeout=max(0.0, until_s - monotonic_s()))
            return True
        except Empty:
            return False
        finally:
            with suppress(ValueError):
                self._waiting.remove(told)


def begin(thread: threading.Thread) -> None:
    """Start a thread by another one, since `Thread.start` waits by an `Event`.

    Raises:
        RuntimeError: there is no thread left.
    """
    start_new_thread(thread.start, ())
