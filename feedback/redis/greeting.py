"""Says why a connection to Redis was not made, where redis-py's error does not."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import closing
from typing import Any

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from feedback.clock import monotonic_s
from feedback.errors import SecurityFault, SecurityKind
from feedback.redis.faults import fault_of
from feedback.security import REDIS, fault, of_tls
from feedback.tls_files import Certificate, unusable_file
from feedback.tls_probe import connected, speaks_tls

# A port is asked so seldom that an outage is not lengthened by the questions.
ASKED_AGAIN_S = 30.0
_REFUSED = (ConnectionRefusedError, FileNotFoundError)

_answers: dict[tuple[str, int, bool], tuple[float, SecurityFault | None]] = {}
_lock = threading.Lock()


def note_failed(error: BaseException, connection: Any) -> None:
    """Mark an error of connecting: it carried no command, and may have a fault of security.

    Args:
        connection: redis-py's, for threads or asyncio.
    """
    error.onceward_unsent = True  # type: ignore[attr-defined]
    found = _fault_of_files(error, connection)
    if found is None and not isinstance(error, ResponseError) and fault_of(error, "") is None:
        found = _fault_of_port(error, connection)
    if found is not None:
        error.onceward_fault = found  # type: ignore[attr-defined]


def _fault_of_files(error: BaseException, connection: Any) -> SecurityFault | None:
    """Return the fault of a file; OpenSSL's error names none."""
    context = _tls_of(connection)
    if context is None or of_tls(error, REDIS) is not None:
        return None
    password = getattr(context, "certificate_password", None) or getattr(context, "password", None)
    return unusable_file(
        REDIS,
        cafiles={REDIS.cafile: context.ca_certs},
        certificate=Certificate(context.certfile, context.keyfile, password),
    )


def _fault_of_port(error: BaseException, connection: Any) -> SecurityFault | None:
    if isinstance(error.__context__, _REFUSED):
        return None
    place = (connection.host, connection.port, _tls_of(connection) is not None)
    with _lock:
        asked_s, found = _answers.get(place, (-ASKED_AGAIN_S, None))
        if monotonic_s() - asked_s >= ASKED_AGAIN_S:
            found = _ask(connection, is_silent=isinstance(error, RedisTimeout))
            _answers[place] = (monotonic_s(), found)
    return found


def _ask(connection: Any, *, is_silent: bool) -> SecurityFault | None:
    """Ask the port; a silent one costs the caller no second wait that tells nothing.

    A server with TLS closes a connection without. One without TLS waits for the end of a line.
    """
    host, port = connection.host, connection.port
    if _tls_of(connection) is None:
        is_tls = not is_silent and speaks_tls(host, port)
        return fault(SecurityKind.NEEDS_TLS, REDIS) if is_tls else None
    if _answers_without_tls(host, port):
        return fault(SecurityKind.NO_TLS, REDIS)
    return None if is_silent else _last_words(connection)


def _last_words(connection: Any) -> SecurityFault | None:
    """Return why a server ends a connection after the handshake.

    It refuses the certificate of a client by an alert, which is lost to one who writes meanwhile.
    """
    try:
        with (
            closing(connected(connection.host, connection.port)) as sock,
            closing(_encrypted(connection, sock)) as encrypted,
        ):
            encrypted.recv(1)
    except OSError as error:
        return of_tls(error, REDIS)
    return None


def _encrypted(connection: Any, sock: socket.socket) -> ssl.SSLSocket:
    context = getattr(connection, "ssl_context", None)
    if context is None:
        return connection._wrap_socket_with_ssl(sock)  # type: ignore[no-any-return]
    return context.get().wrap_socket(  # type: ignore[no-any-return]
        sock, server_hostname=connection.host
    )


def _tls_of(connection: Any) -> Any:
    """Return the TLS settings of a connection for threads or asyncio; None without TLS."""
    context = getattr(connection, "ssl_context", connection)
    return context if hasattr(context, "ca_certs") else None


def _answers_without_tls(host: str, port: int) -> bool:
    try:
        with closing(connected(host, port)) as sock:
            sock.sendall(b"PING\r\n")
            return sock.recv(1) in (b"+", b"-")
    except OSError:
        return False
