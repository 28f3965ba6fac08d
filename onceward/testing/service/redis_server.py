"""A Redis in this process, behind a port: fakeredis, which may be away and keeps its data."""

from __future__ import annotations

import threading
from typing import Any

from redis.exceptions import ResponseError

from feedback.errors import NotAvailable
from onceward.servers.ports import HOST


class RedisInProcess:
    """Redis on a port of this host, as long as it is not closed.

    Attributes:
        url: where.

    Raises:
        NotAvailable: fakeredis is not installed.
    """

    def __init__(self) -> None:
        self._data: Any = None
        self._server: Any = None
        self._port = 0
        self._listen()
        self.url = f"redis://{HOST}:{self._port}/0"

    def go_away(self) -> None:
        """Refuse connections, and return when those that were there have ended."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()  # joins their threads
            self._thread.join()
        self._server = None

    def come_back(self) -> None:
        """Answer again, with the same data."""
        if self._server is None:
            self._listen()

    def close(self) -> None:
        """End it."""
        self.go_away()

    def _listen(self) -> None:
        try:
            from fakeredis import FakeServer, TcpFakeServer
        except ImportError as error:
            raise NotAvailable("no fakeredis: pip install 'onceward[testing]'") from error
        self._data = self._data or FakeServer()
        server: Any = TcpFakeServer((HOST, self._port))
        server.fake_server = self._data
        server.RequestHandlerClass = _answering_on(server.RequestHandlerClass)
        self._port = server.server_address[1]
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, args=(0.02,), name="onceward-redis", daemon=True
        )
        self._thread.start()


def _answering_on(handler: Any) -> type:
    """Return the class of connections that go on after an error, as those of Redis do.

    fakeredis 2.40 closes a connection whose command is refused, such as a script that it has to be
    given first; a client of ours would not know whether the command was carried out.
    """

    class Answering(handler):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            read = self.current_client.read_response

            def reply(**given: Any) -> Any:
                try:
                    return read(**given)
                except ResponseError as error:
                    return error

            self.current_client.read_response = reply

    return Answering
