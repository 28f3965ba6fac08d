"""Asks a broker's listener whether it speaks TLS, and which logins it takes.

A listener of the wrong kind closes the connection without a word, as a broker that stops does. One
question on a connection of its own tells the two apart. It holds no secret.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import closing
from typing import NamedTuple

from feedback.errors import SecurityFault, SecurityKind
from feedback.security import KAFKA, fault, of_tls
from feedback.settings.settings import KafkaSection
from feedback.tls_probe import connected, encrypted

# SaslHandshakeRequest, version 1, for a mechanism that no broker has: its answer names all it has.
_QUESTION = struct.pack(">hhih5sh", 17, 1, 1, 5, b"probe", 0)
_LARGEST_BYTES = 65_536
# Kafka's codes: of a listener without logins, and of one that does not know the mechanism.
_NO_LOGINS, _OTHER_MECHANISM = 34, 33


class BrokerListener(NamedTuple):
    """A listener as it answered.

    Attributes:
        mechanisms: the logins it takes; None where it takes none.
    """

    speaks_tls: bool
    mechanisms: tuple[str, ...] | None


def fault_of_listener(host: str, port: int, *, security_protocol: str) -> SecurityFault | None:
    """Return how a listener and our `security_protocol` disagree; None where they do not.

    None as well where no listener answers: that is an outage.
    """
    found = ask(host, port)
    if found is None:
        return None
    if found.speaks_tls is not security_protocol.endswith("SSL"):
        return fault(SecurityKind.NEEDS_TLS if found.speaks_tls else SecurityKind.NO_TLS, KAFKA)
    we_log_in = security_protocol.startswith("SASL")
    if (found.mechanisms is not None) is we_log_in:
        return None
    if we_log_in:
        return fault(SecurityKind.NO_LOGIN, KAFKA)
    offered = ", ".join(found.mechanisms or ())
    wanted = f"set [kafka] security_protocol to SASL_{security_protocol}"
    return fault(SecurityKind.NEEDS_LOGIN, KAFKA, more=f"{wanted}, and sasl_mechanism to {offered}")


def fault_of_certificate(host: str, port: int, settings: KafkaSection) -> SecurityFault | None:
    """Return why a listener's certificate is refused; None where it is not, or none answers."""
    try:
        # Its file may be gone since the connection was made.
        context = ssl.create_default_context(cafile=settings.ssl_cafile)
        context.check_hostname = settings.ssl_check_hostname
        with (
            closing(connected(host, port)) as sock,
            closing(context.wrap_socket(sock, server_hostname=host)),
        ):
            return None
    except OSError as error:
        return of_tls(error, KAFKA)


def ask(host: str, port: int) -> BrokerListener | None:
    """Return how a listener answers, over TLS or else without; None where it does not."""
    for with_tls in (True, False):
        try:
            with closing(connected(host, port)) as sock:
                talk = encrypted(sock, host) if with_tls else sock
                with closing(talk):
                    return BrokerListener(with_tls, _mechanisms(talk))
        except OSError:
            continue
    return None


def _mechanisms(sock: socket.socket) -> tuple[str, ...] | None:
    """Return the logins of a listener.

    Raises:
        OSError: it does not answer.
    """
    sock.sendall(struct.pack(">i", len(_QUESTION)) + _QUESTION)
    (size,) = struct.unpack(">i", _exactly(sock, 4))
    if not 10 <= size <= _LARGEST_BYTES:
        raise OSError("this is no answer of Kafka")
    answer = _exactly(sock, size)
    code, count = struct.unpack_from(">hi", answer, 4)
    if code == _NO_LOGINS:
        return None
    if code not in (0, _OTHER_MECHANISM):
        raise OSError("this is no answer of Kafka")
    return _strings(answer[10:], count)


def _strings(data: bytes, count: int) -> tuple[str, ...]:
    found: list[str] = []
    while data and len(found) < count:
        (size,) = struct.unpack_from(">h", data) if len(data) > 1 else (0,)
        found.append(data[2 : 2 + size].decode("ascii", "replace"))
        data = data[2 + size :]
    return tuple(sorted(found))


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise OSError("the listener closed the connection")
        data += more
    return data
