"""Waking a poll from another thread or from a signal handler."""

from __future__ import annotations

import os
import threading


class Wakeup:
    """An event that a selector can wait for; set any number of times, it is one event."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_set = False
        # Whose number another file may have by the time of a late write. A signal may come while
        # its own thread is in here.
        self._open = threading.RLock()
        self._is_closed = False

    def fileno(self) -> int:
        """Return the file that becomes readable."""
        return self._fd

    def set(self) -> None:
        """Make it readable; safe from any thread and signal handler, free when it is already."""
        if self._is_set:
            return
        with self._open:
            if not self._is_closed:
                self._is_set = True
                os.eventfd_write(self._fd, 1)

    def clear(self) -> None:
        """Take the event; the thread that does sees all work that came before the `set`.

        The order matters: were the flag cleared first, a `set` between the two would leave it
        raised on an empty event, and every later one would be lost.
        """
        os.eventfd_read(self._fd)
        self._is_set = False

    def close(self) -> None:
        """Let go; later calls of `set` do nothing."""
        with self._open:
            self._is_closed = True
            os.close(self._fd)
