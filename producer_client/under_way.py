"""The sends that a client has under way; closing the client waits for them."""

from __future__ import annotations

import threading


class UnderWay:
    """Counts calls that have begun and not ended. Safe to share between threads.

    >>> under_way = UnderWay()
    >>> with under_way:
    ...     under_way.wait(0.0)
    False
    >>> under_way.wait(0.0)
    True
    """

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *raised: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Return when nothing is under way, or when the time is over; say which."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, timeout_s)
