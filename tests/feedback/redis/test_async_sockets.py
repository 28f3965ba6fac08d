"""A connection over TLS that is closed is closed, whatever its server does."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from feedback.redis.async_sockets import AsyncTlsConnection, abort
from onceward.servers.ports import HOST
from tests.stack.authority import Certificate
from tests.stack.tls_front import self_signed


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    """Return a certificate that is its own authority."""
    return self_signed(tmp_path, "redis", host=HOST, days=1)


@pytest.fixture
def deaf(certificate: Certificate) -> Iterator[int]:
    """Yield the port of a server that shakes hands, and then neither answers nor closes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    is_over = threading.Event()

    def serve() -> None:
        with suppress(OSError):  # the test was over before it connected
            sock, _ = server.accept()
            with context.wrap_socket(sock, server_side=True):
                is_over.wait()

    with socket.create_server((HOST, 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        is_over.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


async def _after_an_error(made: AsyncTlsConnection) -> None:
    await made.disconnect(nowait=True)


async def _cancelled(made: AsyncTlsConnection) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(made.disconnect(), 0.05)


async def _in_time(made: AsyncTlsConnection) -> None:
    made.socket_connect_timeout = 0.05
    await made.disconnect()


@pytest.mark.parametrize("end", [_after_an_error, _cancelled, _in_time])
def test_no_socket_is_left_of_a_connection_whose_server_does_not_close(
    deaf: int, certificate: Certificate, end: Callable[[AsyncTlsConnection], Awaitable[None]]
) -> None:
    async def main() -> asyncio.Transport:
        made = AsyncTlsConnection(host=HOST, port=deaf, ssl_ca_certs=str(certificate.cert))
        await made._connect()  # type: ignore[no-untyped-call]  # without a greeting, which this server would not answer
        assert made._writer is not None
        under_tls: asyncio.Transport = made._writer.transport._ssl_protocol._transport  # type: ignore[attr-defined]
        await end(made)
        return under_tls

    # Else the garbage collector finds the socket of a loop that is over, and warns.
    assert asyncio.run(main()).get_extra_info("socket").fileno() == -1


def test_one_that_was_closed_twice_has_nothing_to_abort() -> None:
    class ClosedTwice(asyncio.WriteTransport):
        """As of Python 3.11.2."""

        def abort(self) -> None:
            raise AttributeError("'NoneType' object has no attribute '_abort'")

    abort(ClosedTwice())
