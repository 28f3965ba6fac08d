"""Finds out why a connection to Kafka failed, which kafka-python 3.0 only logs.

A refused address, an unknown name, an untrusted certificate and a wrong password all end in "Unable
to bootstrap". Importing this module adds the last failure to that sentence, and ends the wait for a
broker as soon as all its addresses have failed by a fault of security: no later try would differ.

It also lets the answer to a login be read: a broker that refuses one answers and closes, and
kafka-python drops an answer that came together with the close. And it lengthens the pauses between
logins that are refused; kafka-python would try again at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
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
from feedback.errors import SecurityFault
from feedback.kafka.kafka_python.faults import Faulty, fault_of
from feedback.kafka.listener import fault_of_listener
from feedback.security import KAFKA
from feedback.tls_files import Certificate, unusable_file

# The errors of TLS to a plain port, of plain text to a TLS port, and the like.
_OTHER_PROTOCOL = (
    "closed the connection",
    "connection has been closed (EOF)",
    "IllegalSaslState",
    "InvalidReceiveError",
    "UNEXPECTED_EOF",
    "WRONG_VERSION_NUMBER",
)
# A broker that has just started may not know its users at the first try.
REFUSALS = 2

_bootstrap = KafkaConnectionManager._do_bootstrap
_connect = KafkaConnectionManager._connect
_lost = KafkaConnection.connection_lost
_context = KafkaSSLTransport._build_ssl_context


class _Failure(NamedTuple):
    at_s: float
    reason: str
    is_timeout: bool
    fault: SecurityFault | None


class _Refusal(NamedTuple):
    """The last failures of one address, all of one fault.

    Attributes:
        fault: None where the connection ended without a word.
    """

    fault: SecurityFault | None
    times: int


def why_lost(net: Any, *, since_s: float) -> str | None:
    """Return the reason of the last failed connection; None when none has failed since then.

    A connection that timed out says less than an earlier one that was refused: the caller's own
    time limit cuts the last attempt, for any cause.

    Args:
        net: the network of a client of kafka-python.
        since_s: monotonic time.
    """
    failure = _last(net, since_s)
    return None if failure is None else failure.reason


def fault_lost(net: Any, *, since_s: float) -> SecurityFault | None:
    """Return the fault of security of the last failed connection; see `why_lost`."""
    failure = _last(net, since_s)
    return None if failure is None else failure.fault


def _last(net: Any, since_s: float) -> _Failure | None:
    failures: dict[bool, _Failure] = getattr(net, "onceward_failures", {})
    recent = [one for one in failures.values() if one.at_s >= since_s]
    return min(recent, key=lambda one: one.is_timeout) if recent else None


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
        fault = fault_of(exc, mechanism=self.config["sasl_mechanism"])
        reason = reason_of(exc, security_protocol=self.config["security_protocol"])
        timeouts = (KafkaTimeoutError, RequestTimedOutError)
        is_timeout = isinstance(exc, timeouts) or "timed out" in reason
        failures: dict[bool, _Failure] = self.net.__dict__.setdefault("onceward_failures", {})
        said = reason if fault is None else fault.said
        failures[is_timeout] = _Failure(monotonic_s(), said, is_timeout, fault)
        _note_refusal(self, fault, is_silent="security_protocol right?" in reason)
    _lost(self, exc)


def _note_refusal(connection: Any, fault: SecurityFault | None, *, is_silent: bool) -> None:
    refusals: dict[str, _Refusal] = connection.net.__dict__.setdefault("onceward_refusals", {})
    before = refusals.pop(connection.node_id, None)
    if fault is None and not is_silent:
        return
    # kafka-python reports one loss twice.
    is_noted = before is not None and getattr(connection, "onceward_is_noted", False)
    times = before.times if before is not None and before.fault == fault else 0
    connection.onceward_is_noted = True
    refusals[connection.node_id] = _Refusal(fault, times if is_noted else times + 1)


class _UntilRefused:
    """A connection manager that counts as closed when every address has refused us.

    Args:
        manager: kafka-python's.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._net = manager._net
        self._asked: set[str] = set()
        self._net.__dict__.pop("onceward_refusals", None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    @property
    def closed(self) -> bool:
        """Whether bootstrapping ends now."""
        return bool(self._manager.closed) or self.fault() is not None

    def fault(self) -> SecurityFault | None:
        """Return the fault of the addresses; None while one of them may yet answer."""
        refusals: Mapping[str, _Refusal] = getattr(self._net, "onceward_refusals", {})
        found: SecurityFault | None = None
        for broker in self._manager.cluster.bootstrap_brokers():
            refusal = refusals.get(broker.node_id)
            if refusal is None or refusal.times < REFUSALS:
                return None
            found = refusal.fault or self._ask(broker)
            if found is None:
                return None
        return found

    def _ask(self, broker: Any) -> SecurityFault | None:
        """Ask a listener that closed our connections, once."""
        if broker.node_id in self._asked:
            return None
        self._asked.add(broker.node_id)
        protocol = self._manager.config["security_protocol"]
        found = fault_of_listener(broker.host, broker.port, security_protocol=protocol)
        if found is not None:
            self._net.onceward_refusals[broker.node_id] = _Refusal(found, REFUSALS)
        return found


async def _bootstrap_or_say(self: Any, deadline: float | None) -> Any:
    began_s = monotonic_s()
    until_refused = _UntilRefused(self)
    try:
        return await _bootstrap(until_refused, deadline)
    except KafkaTimeoutError as error:
        fault = until_refused.fault() or fault_lost(self._net, since_s=began_s)
        if fault is not None:
            raise Faulty(fault) from error
        reason = why_lost(self._net, since_s=began_s)
        if reason is None:
            raise
        raise KafkaTimeoutError(f"{error.args[0]}: {reason}") from error


async def _connect_and_back_off(self: Any, node: Any, conn: Any, **named: Any) -> None:
    before = self._backoff.get(node.node_id)
    await _connect(self, node, conn, **named)
    # A login that is refused counts as connected there.
    if conn.init_future.failed() and node.node_id not in self._backoff:
        if before is not None:
            self._backoff[node.node_id] = before
        self.update_backoff(node.node_id)


def _context_or_say(config: Mapping[str, Any]) -> ssl.SSLContext:
    """Return the TLS context of a new connection; its files are read each time.

    Raises:
        Faulty: a file cannot be used.
    """
    try:
        context: ssl.SSLContext = _context(config)
    except (OSError, ValueError) as error:
        found = unusable_file(
            KAFKA,
            cafiles={f"[kafka] {one}": config[one] for one in ("ssl_cafile", "ssl_crlfile")},
            certificate=Certificate(
                config["ssl_certfile"], config["ssl_keyfile"], config["ssl_password"]
            ),
        )
        if found is None:
            raise
        raise Faulty(found) from error
    return context


def _let_last_words_be_read(transport: type[KafkaTCPTransport]) -> None:
    receive = transport._sock_recv

    def received(self: Any) -> tuple[bytes, KafkaError | None]:
        data, error = receive(self)
        # The next reading finds the end again.
        return data, None if data else error

    transport._sock_recv = received


KafkaConnection.connection_lost = _note_lost
KafkaConnectionManager._do_bootstrap = _bootstrap_or_say
KafkaConnectionManager._connect = _connect_and_back_off
KafkaSSLTransport._build_ssl_context = staticmethod(_context_or_say)
for _kind in (KafkaTCPTransport, KafkaSSLTransport):
    _let_last_words_be_read(_kind)
