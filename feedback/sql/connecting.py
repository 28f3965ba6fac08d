"""Connects to PostgreSQL, and names the fault of security for which it did not succeed."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from psycopg import OperationalError
from sqlalchemy import Engine, event

from feedback.errors import SecurityFault, SecurityKind
from feedback.security import SettingNames, of_tls
from feedback.sql.refusals import of_connecting
from feedback.tls_files import Certificate, unusable_file
from feedback.tls_probe import connected

_SSL_REQUEST = struct.pack(">ii", 8, 80_877_103)
_PORT = 5432


def connect_by(engine: Engine, connect: Callable[..., Any], names: SettingNames) -> None:
    """Let an engine make its connections by `connect`, whose errors then carry their fault."""

    @event.listens_for(engine, "do_connect")
    def _connect(dialect: object, record: object, arguments: Any, named: Any) -> Any:
        try:
            return connect(*arguments, **named)
        except OperationalError as error:
            error.onceward_fault = _fault(error, names, named)  # type: ignore[attr-defined]
            raise


def _fault(
    error: OperationalError, names: SettingNames, named: Mapping[str, Any]
) -> SecurityFault | None:
    found = of_connecting(str(error), names)
    if found is not None and found.kind is SecurityKind.UNTRUSTED:
        # libpq says of no certificate why it is refused.
        return _of_certificate(names, named) or found
    if found is not None and found.kind is SecurityKind.CLIENT_CERTIFICATE:
        # libpq goes on without a file that is not there.
        return _of_own_files(names, named) or found
    return found


def _of_own_files(names: SettingNames, named: Mapping[str, Any]) -> SecurityFault | None:
    """Return the fault of the files of our own certificate."""
    cert, key, password = (named.get(one) for one in ("sslcert", "sslkey", "sslpassword"))
    if cert is None:
        return None
    return unusable_file(names, cafiles={}, certificate=Certificate(cert, key, password))


def _of_certificate(names: SettingNames, named: Mapping[str, Any]) -> SecurityFault | None:
    """Return the fault of the server's certificate by a handshake of our own."""
    host, cafile = str(named.get("host") or ""), named.get("sslrootcert")
    port = str(named.get("port") or _PORT)
    if not host or host.startswith("/") or not port.isdecimal() or not cafile:
        return None
    try:
        context = ssl.create_default_context(cafile=str(cafile))
        context.check_hostname = False
        with closing(connected(host, int(port))) as sock:
            _ask_for_tls(sock)
            context.wrap_socket(sock, server_hostname=host).close()
    except OSError as error:
        return of_tls(error, names)
    return None


def _ask_for_tls(sock: socket.socket) -> None:
    sock.sendall(_SSL_REQUEST)
    if sock.recv(1) != b"S":
        raise OSError("the server speaks no TLS")
