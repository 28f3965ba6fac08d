"""The sends that a client has under way; closing the client waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Protocol


class Counting(Protocol):
    """Counts calls, and says whether the client is open."""

    @property
    def is_open(self) -> bool: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *raised: object) -> None: ...


class UnderWay:
    """Counts calls that have begun and not ended. Safe to share between threads.

    >>> under_way = UnderWay()
    >>> with under_way:
    ...     under_way.ended(0.0)
    False
    >>> under_way.ended(0.0)
    True

    Attributes:
        is_open: False once the client is closing; its closer says so.
    """

    def __init__(self) -> None:
        self._count = 0
        self.is_open = True
        self._changed = threading.Condition()

    def __enter__(self) -> None:
        with self._changed:
            self._count += 1

    def __exit__(self, *raised: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def ended(self, timeout_s: float) -> bool:
        """Return when nothing is under way, or when the time is over; say which."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._count, timeout_s)


class TasksUnderWay:
    """The same for the tasks of one loop."""

    def __init__(self) -> None:
        self._count = 0
        self.is_open = True
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def __enter__(self) -> None:
        self._count += 1
        self._is_idle.clear()

    def __exit__(self, *raised: object) -> None:
        self._count -= 1
        if not self._count:
            self._is_idle.set()

    async def ended(self, timeout_s: float) -> bool:
        """Return when nothing is under way, or when the time is over; say which."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._is_idle.wait()
        return not self._count
