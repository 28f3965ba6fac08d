"""The address that a server of ours listens on."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from feedback.errors import NotAvailable

BACKLOG = 2048


def is_loopback(host: str) -> bool:
    """Whether only this host can reach the address.

    >>> [is_loopback(one) for one in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "shop.example")]
    [True, True, True, False, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int, *, setting: str) -> socket.socket:
    """Return a socket that listens there.

    Args:
        setting: that chooses the port, for the error's sentence.

    Raises:
        NotAvailable: nobody can.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise NotAvailable(
            f"{setting}: nobody can listen on {host}:{port} ({error.strerror or error}): "
            "choose another port or host, or end what has it"
        ) from error
    # Each accepted connection inherits it. asyncio sets it only where a socket names its protocol,
    # which this one does not: the body of an answer would wait 40 ms for the headers to be
    # acknowledged.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
