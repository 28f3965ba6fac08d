"""Closes the socket of each failed connection, which kafka-python 3.0 leaves to the collector.

Its retries keep the errors, whose frames keep the sockets: with the brokers away a process lost
some 20 descriptors a minute, and after an hour all it may have. Importing this module mends it.
"""

from __future__ import annotations

from typing import Any

from kafka.net.inet import KafkaNetSocket

_connect = KafkaNetSocket.sock_connect


async def _connect_or_close(self: Any, net: Any, sock: Any, *address: Any, **named: Any) -> Any:
    try:
        return await _connect(self, net, sock, *address, **named)
    except BaseException:
        sock.close()
        raise


KafkaNetSocket.sock_connect = _connect_or_close
