"""Closes the sockets of failed connections, which kafka-python 3.0 leaves to the collector.

Its retries keep the errors, whose frames keep the sockets: with the brokers away a process lost
some 20 descriptors a minute, and after an hour all of them. The same happens to a connection that
is closed, with its client, before all is written. And it blocks its loop while it resolves a name,
for as long as that takes, and waits for ever for a server that never answers a TLS handshake.
Importing this module mends all of it.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient
from kafka.net.inet import KafkaNetSocket
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

import feedback.kafka.kafka_python.failures
import feedback.kafka.kafka_python.logins
import feedback.kafka.kafka_python.logs
import feedback.kafka.kafka_python.tagged_fields  # noqa: F401 - these mend it for this process
from feedback.clock import monotonic_s
from feedback.names import addresses

# For one lookup: a later address is there for the next try.
LOOKUP_S = 0.5
# For one handshake: a server that accepts and then says nothing is away.
HANDSHAKE_S = 5.0

_connect = KafkaNetSocket.sock_connect
_wrap = KafkaSSLTransport.__init__
_write = KafkaTCPTransport._write_to_sock


async def _connect_or_close(self: Any, net: Any, sock: Any, *address: Any, **named: Any) -> Any:
    try:
        return await _connect(self, net, sock, *address, **named)
    except BaseException:
        sock.close()
        raise


def _wrap_or_close(self: Any, net: Any, sock: Any, *given: Any, **named: Any) -> None:
    try:
        _wrap(self, net, sock, *given, **named)
    except BaseException:
        sock.close()  # for example a certificate's file that is not there
        raise


async def _handshake(self: Any, *, until_s: float) -> None:
    while True:
        try:
            self._sock.do_handshake()
        except ssl.SSLWantReadError:
            await self._net.wait_read(self._sock, until_s)
        except ssl.SSLWantWriteError:
            await self._net.wait_write(self._sock, until_s)
        else:
            return


async def _handshake_or_close(self: Any) -> None:
    try:
        await _handshake(self, until_s=monotonic_s() + HANDSHAKE_S)
    except BaseException:
        self._sock.close()
        raise


async def _write_or_close(self: Any) -> None:
    try:
        await _write(self)
    except BaseException:
        if self.is_closing():
            self._write_task = None  # it is this task, which closing would end as well
            self._close()
        raise


def _lookup(self: Any, host: str, port: int, raise_error: bool = False) -> list[Any]:
    try:
        return addresses(host, port, socket.AF_UNSPEC, within_s=LOOKUP_S)
    except OSError as error:
        # Even without an error: an empty list of addresses ends in an error that names nothing.
        raise KafkaConnectionError(f"{host}:{port}: {error}") from error


KafkaNetSocket.dns_lookup = _lookup
KafkaNetSocket.sock_connect = _connect_or_close
KafkaSSLTransport.__init__ = _wrap_or_close
KafkaSSLTransport.handshake = _handshake_or_close
KafkaTCPTransport._write_to_sock = _write_or_close


@contextmanager
def closed_at_a_fault() -> Iterator[Callable[..., KafkaNetClient]]:
    """Yield a factory of a client's network.

    The network is closed when the client cannot be made: kafka-python would leave its sockets open.
    """
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
