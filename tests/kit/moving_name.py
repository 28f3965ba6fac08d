"""A name that leads to one server, and later to another: connections stay where they were made."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from onceward.servers.ports import HOST

_MOST = 65_536


class MovingName:
    """A port that passes each connection on to the server that the name leads to when it is made.

    Attributes:
        port: where it is reached.
        made: the servers' ports of the connections so far.
    """

    def __init__(self, port: int) -> None:
        self._lock = threading.Lock()
        self._to, self._next, self._left = port, port, 0
        self._listener = socket.create_server((HOST, 0))
        self._open: list[socket.socket] = [self._listener]
        self.port: int = self._listener.getsockname()[1]
        self.made: list[int] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def move(self, port: int, *, after: int = 0) -> None:
        """Lead to another server, once so many further connections were made."""
        with self._lock:
            self._next, self._left, self.made = port, after, []
            if not after:
                self._to = port

    def close(self) -> None:
        """Cut all connections."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._place()))
                self._open += [client, server]
                for source, target in ((client, server), (server, client)):
                    threading.Thread(target=_pump, args=(source, target), daemon=True).start()

    def _place(self) -> int:
        with self._lock:
            if self._left == 0:
                self._to = self._next
            self._left -= 1
            self.made.append(self._to)
            return self._to


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_MOST):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def moving_name(port: int) -> Iterator[MovingName]:
    """Yield a name that leads to a server of this host."""
    name = MovingName(port)
    try:
        yield name
    finally:
        name.close()
