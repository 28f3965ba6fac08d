"""Finds out why a connection to Kafka failed, which kafka-python 3.0 only logs.

A refused address, an unknown name, an untrusted certificate and a wrong password all end in "Unable
to bootstrap". Importing this module adds the last failure to that sentence. It also lets the answer
to a login be read: a broker that refuses one answers and closes, and kafka-python drops an answer
that came together with the close.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
)
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from feedback.clock import monotonic_s

# The errors of TLS to a plain port, of plain text to a TLS port, and the like.
_OTHER_PROTOCOL = (
    "closed the connection",
    "connection has been closed (EOF)",
    "IllegalSaslState",
    "InvalidReceiveError",
    "UNEXPECTED_EOF",
    "WRONG_VERSION_NUMBER",
)

_bootstrap = KafkaConnectionManager._do_bootstrap
_lost = KafkaConnection.connection_lost


class _Failure(NamedTuple):
    at_s: float
    reason: str
    is_timeout: bool


def why_lost(net: Any, *, since_s: float) -> str | None:
    """Return the reason of the last failed connection; None when none has failed since then.

    A connection that timed out says less than an earlier one that was refused: the caller's own
    time limit cuts the last attempt, for any cause.

    Args:
        net: the network of a client of kafka-python.
        since_s: monotonic time.
    """
    failures: dict[bool, _Failure] = getattr(net, "onceward_failures", {})
    recent = [one for one in failures.values() if one.at_s >= since_s]
    return min(recent, key=lambda one: one.is_timeout).reason if recent else None


def reason_of(error: BaseException, *, security_protocol: str) -> str:
    """Return one line that says why a connection failed.

    >>> reason_of(KafkaConnectionError("111 ECONNREFUSED"), security_protocol="PLAINTEXT")
    '111 ECONNREFUSED'
    """
    text = " ".join(str(error.args[0]).split()) if error.args and error.args[0] else ""
    name = type(error).__name__
    if isinstance(error, KafkaConnectionError):
        detail = text
        if not detail or detail == "socket disconnected":
            detail = f"the broker closed the connection of {security_protocol}"
    else:
        detail = text if text.startswith(name) else f"{name} {text}".strip()
    is_misunderstood = any(sign in detail for sign in _OTHER_PROTOCOL)
    return f"{detail}; is security_protocol right?" if is_misunderstood else detail


def _note_lost(self: Any, exc: BaseException | None) -> None:
    if exc is not None:
        reason = reason_of(exc, security_protocol=self.config["security_protocol"])
        timeouts = (KafkaTimeoutError, RequestTimedOutError)
        is_timeout = isinstance(exc, timeouts) or "timed out" in reason
        failures: dict[bool, _Failure] = self.net.__dict__.setdefault("onceward_failures", {})
        failures[is_timeout] = _Failure(monotonic_s(), reason, is_timeout)
    _lost(self, exc)


async def _bootstrap_or_say(self: Any, deadline: float | None) -> Any:
    began_s = monotonic_s()
    try:
        return await _bootstrap(self, deadline)
    except KafkaTimeoutError as error:
        reason = why_lost(self._net, since_s=began_s)
        if reason is None:
            raise
        raise KafkaTimeoutError(f"{error.args[0]}: {reason}") from error


def _let_last_words_be_read(transport: type[KafkaTCPTransport]) -> None:
    receive = transport._sock_recv

    def received(self: Any) -> tuple[bytes, KafkaError | None]:
        data, error = receive(self)
        # The next reading finds the end again.
        return data, None if data else error

    transport._sock_recv = received


KafkaConnection.connection_lost = _note_lost
KafkaConnectionManager._do_bootstrap = _bootstrap_or_say
for _kind in (KafkaTCPTransport, KafkaSSLTransport):
    _let_last_words_be_read(_kind)
