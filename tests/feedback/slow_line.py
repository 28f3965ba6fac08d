"""A line to a real server on which every answer takes its time."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from time import monotonic, sleep
from urllib.parse import urlsplit

from onceward.servers.ports import HOST


class SlowLine:
    """Passes connections on; what the server says arrives `delay_s` later.

    Args:
        url: the server behind it.
    """

    def __init__(self, url: str) -> None:
        self.delay_s = 0.0
        self._port = urlsplit(url).port or 0
        self._listener = socket.create_server((HOST, 0))
        self.address = f"{HOST}:{self._listener.getsockname()[1]}"
        self.url = f"redis://{self.address}/0"
        self._open: list[socket.socket] = [self._listener]
        self._start(self._accept)

    def close(self) -> None:
        """Cut all connections."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _start(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((HOST, self._port))
                self._open += [client, server]
                said: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                self._start(self._ask, client, server)
                self._start(self._hear, server, said)
                self._start(self._answer, said, client)

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)

    def _hear(self, server: socket.socket, said: SimpleQueue[tuple[float, bytes]]) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                said.put((monotonic() + self.delay_s, data))
        said.put((0.0, b""))

    def _answer(self, said: SimpleQueue[tuple[float, bytes]], client: socket.socket) -> None:
        with suppress(OSError):
            while True:
                due_s, data = said.get()
                if not data:
                    client.shutdown(socket.SHUT_WR)
                    return
                sleep(max(0.0, due_s - monotonic()))
                client.sendall(data)


@contextmanager
def slow_line(url: str) -> Iterator[SlowLine]:
    """Yield a line that is prompt until its `delay_s` is set."""
    line = SlowLine(url)
    try:
        yield line
    finally:
        line.close()
