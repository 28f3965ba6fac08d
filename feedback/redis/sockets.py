"""Connections to Redis that look names up in bounded time.

redis-py waits for the resolver for as long as that takes, before any of its own timeouts begins.
"""

from __future__ import annotations

import socket
from typing import Any

from redis.connection import Connection, SSLConnection

from feedback.names import addresses


class TcpConnection(Connection):
    """A connection with `socket_connect_timeout` for the name, and for each address."""

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
