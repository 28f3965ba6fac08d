"""What the pool waits for: the children's sockets, their deaths, and being woken."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from functools import partial

from consumer.pool.member import Member
from consumer.pool.wakeup import Wakeup

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

_OnReady = Callable[[int], None]


class Watch:
    """Waits for all of them at once, and calls what each was given.

    Attributes:
        woken: whether `wake` was called since somebody last set this to False.
    """

    def __init__(self) -> None:
        self.woken = False
        self._wakeup = Wakeup()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wakeup.fileno(), _READ, self._on_wake)

    def wait(self, wait_s: float) -> None:
        """Handle what is ready, or what becomes ready first within this time."""
        for key, mask in self._selector.select(max(wait_s, 0.0)):
            on_ready: _OnReady = key.data
            on_ready(mask)

    def wake(self) -> None:
        """Make a wait end; for any thread and any signal handler."""
        self._wakeup.set()

    def add(
        self,
        member: Member,
        *,
        on_read: Callable[[Member], None],
        on_exit: Callable[[Member], None],
    ) -> None:
        """Watch a new child until `mute` and `forget`."""
        on_socket = partial(self._on_socket, member, on_read)
        self._selector.register(member.sock, _READ, on_socket)
        self._selector.register(member.death_fd, _READ, lambda mask: on_exit(member))
        member.watched = _READ

    def update(self, member: Member) -> None:
        """Watch for writing as well as long as something waits to be sent."""
        mask = _READ | (_WRITE if member.has_unsent else 0)
        if member.watched and mask != member.watched:
            data = self._selector.get_key(member.sock).data
            self._selector.modify(member.sock, mask, data)
            member.watched = mask

    def mute(self, member: Member) -> None:
        """Watch its socket no more; what it has told is read when it is buried."""
        if member.watched:
            self._selector.unregister(member.sock)
            member.watched = 0

    def forget(self, member: Member) -> None:
        """Watch nothing of it."""
        self.mute(member)
        self._selector.unregister(member.death_fd)

    def close(self) -> None:
        """Let go of everything."""
        self._selector.close()
        self._wakeup.close()

    def _on_wake(self, mask: int) -> None:
        self._wakeup.clear()
        self.woken = True

    def _on_socket(self, member: Member, on_read: Callable[[Member], None], mask: int) -> None:
        if not member.watched:  # muted by an event of this same round
            return
        if mask & _READ:
            on_read(member)
        if mask & _WRITE:
            member.flush()
            self.update(member)
