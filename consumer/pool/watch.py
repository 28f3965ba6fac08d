"""The events that end a wait of the pool: the children's sockets, their deaths, and a wake-up."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from functools import partial

from consumer.pool.child_process import ChildProcess
from consumer.pool.wakeup import Wakeup

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_OnReady = Callable[[int], None]


class Watch:
    """Waits for all of them at once, and calls the callback of each.

    Attributes:
        woken: whether `wake` was called since somebody last set this to False.
    """

    def __init__(self) -> None:
        self.woken = False
        self._wakeup = Wakeup()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wakeup.fileno(), _READ, self._on_wake)

    def wait(self, wait_s: float) -> None:
        """Handle the events that are ready, or the first one within this time."""
        for key, mask in self._selector.select(max(wait_s, 0.0)):
            on_ready: _OnReady = key.data
            on_ready(mask)

    def wake(self) -> None:
        """Make a wait end; for any thread and any signal handler."""
        self._wakeup.set()

    def add(
        self,
        child: ChildProcess,
        *,
        on_read: Callable[[ChildProcess], None],
        on_exit: Callable[[ChildProcess], None],
    ) -> None:
        """Watch a new child until `mute` and `forget`."""
        on_socket = partial(self._on_socket, child, on_read)
        self._selector.register(child.sock, _READ, on_socket)
        self._selector.register(child.exit_fd, _READ, lambda mask: on_exit(child))
        child.watched = _READ

    def update(self, child: ChildProcess) -> None:
        """Watch for writing as well as long as something waits to be sent."""
        mask = _READ | (_WRITE if child.has_unsent else 0)
        if child.watched and mask != child.watched:
            data = self._selector.get_key(child.sock).data
            self._selector.modify(child.sock, mask, data)
            child.watched = mask

    def mute(self, child: ChildProcess) -> None:
        """Watch its socket no more; its last reports are read when it is buried."""
        if child.watched:
            self._selector.unregister(child.sock)
            child.watched = 0

    def forget(self, child: ChildProcess) -> None:
        """Watch nothing of it."""
        self.mute(child)
        self._selector.unregister(child.exit_fd)

    def close(self) -> None:
        """Let go of everything."""
        self._selector.close()
        self._wakeup.close()

    def _on_wake(self, mask: int) -> None:
        self._wakeup.clear()
        self.woken = True

    def _on_socket(
        self, child: ChildProcess, on_read: Callable[[ChildProcess], None], mask: int
    ) -> None:
        if not child.watched:  # muted by an event of this same round
            return
        if mask & _READ:
            on_read(child)
        if mask & _WRITE:
            child.flush()
            self.update(child)
