"""A line to a real Redis that breaks when a command was carried out and its answer is due."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from onceward.servers.ports import HOST

LIMIT_S = 10.0


class BreakingLine:
    """Passes one connection on until `command` was answered; then nobody listens here any more.

    Args:
        url: the Redis behind it.
        command: its name in capitals.
    """

    def __init__(self, url: str, command: bytes) -> None:
        self._command = command
        self._server = socket.create_connection((HOST, urlsplit(url).port or 0), LIMIT_S)
        self._listener = socket.create_server((HOST, 0))
        self._listener.settimeout(LIMIT_S)
        self.url = f"redis://{HOST}:{self._listener.getsockname()[1]}/0"
        self._thread = threading.Thread(target=self._carry)

    def __enter__(self) -> "BreakingLine":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(LIMIT_S)
        self._server.close()

    def _carry(self) -> None:
        client, _ = self._listener.accept()
        with client, self._listener:
            asked = False
            for side, data in self._heard(client):
                if side is client:
                    asked = asked or self._command in data
                    self._server.sendall(data)
                elif asked:
                    # Closed before the connection is: whoever tries again finds nobody.
                    self._listener.close()
                    return
                else:
                    client.sendall(data)

    def _heard(self, client: socket.socket) -> Iterator[tuple[socket.socket, bytes]]:
        while ready := select.select([client, self._server], [], [], LIMIT_S)[0]:
            for side in ready:
                if not (data := side.recv(65_536)):
                    return
                yield side, data


@contextmanager
def breaking_line(url: str, *, over: bytes) -> Iterator[str]:
    """Yield the URL of a line that breaks over a command."""
    with BreakingLine(url, over) as line:
        yield line.url
