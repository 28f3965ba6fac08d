"""Asks a port whether it speaks TLS, for faults that a library reports as a broken connection.

Nothing secret is sent, and nothing that is received is trusted.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import closing

from feedback.names import addresses

# Long enough for a handshake on a busy machine, and within the time that a command has.
PROBE_S = 1.0


def speaks_tls(host: str, port: int) -> bool:
    """Whether a port answers to TLS; not so where nobody listens."""
    try:
        with closing(connected(host, port)) as sock, closing(encrypted(sock, host)):
            return True
    except OSError:
        return False


def connected(host: str, port: int) -> socket.socket:
    """Return a connection whose every wait is bounded.

    Raises:
        OSError: there is none.
    """
    failed = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in addresses(
        host, port, socket.AF_UNSPEC, within_s=PROBE_S
    ):
        sock = socket.socket(family, kind, protocol)
        sock.settimeout(PROBE_S)
        try:
            sock.connect(address)
        except OSError as error:
            sock.close()
            failed = error
        else:
            return sock
    raise failed


def encrypted(sock: socket.socket, host: str) -> ssl.SSLSocket:
    """Return a connection over TLS with a server that is not trusted.

    Raises:
        OSError: the handshake failed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(sock, server_hostname=host)
