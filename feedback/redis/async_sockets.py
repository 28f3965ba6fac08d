"""The connections of `sockets` for asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection
from redis.exceptions import RedisError, TimeoutError

from feedback.redis.greeting import note_failed


class AsyncTcpConnection(Connection):
    """A connection whose failure to connect is marked as one that carried no command."""

    async def connect_check_health(self, *given: Any, **named: Any) -> None:
        """Connect and log in, if that is not done.

        Raises:
            RedisError, OSError: marked as one that carried no command.
        """
        try:
            await super().connect_check_health(*given, **named)
        except (RedisError, OSError) as error:
            # It may ask the port, which takes a while.
            await asyncio.to_thread(note_failed, error, self)
            raise


class AsyncTlsConnection(SSLConnection, AsyncTcpConnection):
    """The same over TLS."""

    async def connect_check_health(self, *given: Any, **named: Any) -> None:
        """Connect with the files of the certificates as they are now; see `AsyncTcpConnection`.

        redis-py reads them once for each connection.
        """
        self.ssl_context.context = None
        await super().connect_check_health(*given, **named)

    async def disconnect(self, *given: Any, **named: Any) -> None:
        """Close the socket for certain.

        After `close` TLS keeps it open until the server has closed as well. redis-py does not wait
        for that after an error, and raises one when it takes long: a loop that ends first would
        leave it open, and a client that has done its work would end with an error.
        """
        writer = self._writer
        try:
            with suppress(TimeoutError):
                await super().disconnect(*given, **named)
        finally:
            if writer is not None:
                abort(writer.transport)


def abort(transport: asyncio.WriteTransport) -> None:
    """Close a socket at once.

    Of one that was closed twice over TLS, early releases of Python 3.11 (Debian 12's) have nothing
    left to abort, and fail; later ones do nothing then.
    """
    with suppress(AttributeError):
        transport.abort()


def async_connection_class(url: str) -> type[Connection]:
    """Return the class of a pool's connections."""
    return AsyncTlsConnection if url.startswith("rediss:") else AsyncTcpConnection
