"""Closes the sockets of failed connections, which kafka-python 3.0 leaves to the collector.

Its retries keep the errors, whose frames keep the sockets: with the brokers away a process lost
some 20 descriptors a minute, and after an hour all it may have. Importing this module mends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport

_connect = KafkaNetSocket.sock_connect
_handshake = KafkaSSLTransport.handshake


async def _connect_or_close(self: Any, net: Any, sock: Any, *address: Any, **named: Any) -> Any:
    try:
        return await _connect(self, net, sock, *address, **named)
    except BaseException:
        sock.close()
        raise


async def _handshake_or_close(self: Any) -> None:
    try:
        await _handshake(self)
    except BaseException:
        self._sock.close()
        raise


KafkaNetSocket.sock_connect = _connect_or_close
KafkaSSLTransport.handshake = _handshake_or_close


@contextmanager
def closed_at_a_fault() -> Iterator[Callable[..., KafkaNetClient]]:
    """Yield what makes a client's network, and close that when the client cannot be made:
    kafka-python would leave its sockets open."""
    made: list[KafkaNetClient] = []

    def connect(*given: Any, **named: Any) -> KafkaNetClient:
        made.append(KafkaNetClient(*given, **named))
        return made[0]

    try:
        yield connect
    except BaseException:
        for one in made:
            one.close()
        raise
