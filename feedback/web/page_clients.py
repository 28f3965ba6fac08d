"""The clients of a page server: the deadline of each, and the choice of one to disconnect.

Slow clients must not cost a probe its answer: a supervisor may kill a worker whose probe fails.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from socket import SHUT_RDWR, socket
from typing import TypeVar

from feedback.clock import monotonic_s

_C = TypeVar("_C")


@dataclass(slots=True)
class PageClient:
    """A connected client.

    Attributes:
        address: its host.
        until_s: its whole request must have arrived by then, on the monotonic clock.
        is_read: whether it has.
    """

    address: str
    until_s: float
    is_read: bool = False

    def is_late(self, now_s: float) -> bool:
        """Return whether its request has not arrived in time."""
        return not self.is_read and now_s >= self.until_s


def slowest(clients: Mapping[_C, PageClient]) -> _C:
    """Return the client to disconnect for a newcomer: the oldest of the busiest address.

    A client whose request has arrived waits for our page, so it gives way last.

    Args:
        clients: at least one, in order of arrival.
    """
    unread = {connection: one for connection, one in clients.items() if not one.is_read}
    rivals = unread or clients
    by_address = Counter(one.address for one in rivals.values())
    return max(rivals, key=lambda one: by_address[rivals[one].address])


class PageClients:
    """The connected clients in order of arrival, for several threads.

    Args:
        limit: this many at a time; one more disconnects the slowest.
        limit_s: a request must arrive within this time, however its client trickles it.
    """

    def __init__(self, *, limit: int, limit_s: float) -> None:
        self._limit = limit
        self._limit_s = limit_s
        self._clients: dict[socket, PageClient] = {}
        self._lock = threading.Lock()

    def enter(self, connection: socket, address: str) -> None:
        """Count a newcomer; where there is no room for it, disconnect the slowest."""
        with self._lock:
            if len(self._clients) >= self._limit:
                self._end(slowest(self._clients))
            until_s = monotonic_s() + self._limit_s
            self._clients[connection] = PageClient(address, until_s)

    @contextmanager
    def answering(self, connection: socket) -> Iterator[None]:
        """Forget the client at the end of the block."""
        try:
            yield
        finally:
            with self._lock:
                self._clients.pop(connection, None)

    def has_read(self, connection: socket) -> None:
        """Note that the whole request of this client has arrived."""
        with self._lock:
            if client := self._clients.get(connection):
                client.is_read = True

    def end_late(self) -> None:
        """Disconnect all clients whose request is late."""
        now_s = monotonic_s()
        with self._lock:
            clients = self._clients.items()
            for connection in [at for at, one in clients if one.is_late(now_s)]:
                self._end(connection)

    def _end(self, connection: socket) -> None:
        del self._clients[connection]
        with suppress(OSError):  # it has disconnected by itself
            connection.shutdown(SHUT_RDWR)
