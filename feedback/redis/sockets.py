"""Connections to Redis that look names up in bounded time, and say why none was made.

redis-py waits for the resolver for as long as that takes, before any of its own timeouts begins.
Whatever fails while a connection is made, login included, carried no command of ours: the error is
marked so. A port that speaks TLS to us who do not (or the other way round) only closes the
connection, or is silent: it is asked, once in a while.
"""

from __future__ import annotations

import socket
from typing import Any

from redis.connection import Connection, SSLConnection
from redis.exceptions import RedisError

from feedback.names import addresses
from feedback.redis.greeting import note_failed


class TcpConnection(Connection):
    """A connection with `socket_connect_timeout` for the name, and for each address."""

    def connect_check_health(self, *given: Any, **named: Any) -> None:
        """Connect and log in, if that is not done.

        Raises:
            RedisError, OSError: marked as one that carried no command.
        """
        try:
            super().connect_check_health(*given, **named)
        except (RedisError, OSError) as error:
            note_failed(error, self)
            raise

    def _connect(self) -> socket.socket:
        longest_s = float(self.socket_connect_timeout or 0.0)
        failed = OSError(f"{self.host} has no address")
        for found in addresses(self.host, self.port, self.socket_type, within_s=longest_s):
            family, kind, protocol, _, address = found
            sock = socket.socket(family, kind, protocol)
            try:
                self._open(sock, address)
            except OSError as error:
                sock.close()
                failed = error
            else:
                return sock
        raise failed

    def _open(self, sock: socket.socket, address: Any) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.socket_keepalive:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in self.socket_keepalive_options.items():
                sock.setsockopt(socket.IPPROTO_TCP, name, value)
        sock.settimeout(self.socket_connect_timeout)
        sock.connect(address)
        sock.settimeout(self.socket_timeout)


class TlsConnection(SSLConnection, TcpConnection):
    """The same over TLS."""


def connection_class(url: str) -> dict[str, type[Connection]]:
    """Return the options of a pool for such connections; none for a socket file."""
    if url.startswith("unix:"):
        return {}
    return {"connection_class": TlsConnection if url.startswith("rediss:") else TcpConnection}
