"""A broker that cannot be reached: the sentence says which of its many causes it was."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from kafka.errors import (
    InvalidReceiveError,
    KafkaConnectionError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
)

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.admin import administrator
from feedback.kafka.kafka_python import failures as kafka_failures
from feedback.kafka.kafka_python.failures import reason_of, why_lost
from feedback.settings.sections import KafkaSection
from onceward.servers.ports import HOST, free_port
from tests.stack.secured import SecuredKafka, secured_kafka

PASSWORD, WRONG = "the-right-secret", "another-secret"
# All causes are tried at the same time, for so long: enough for one whole login on a busy machine.
TIMEOUT_S = 20.0
ASKED = "is security_protocol right?"
NO_NAME = "no-such-name.invalid"


def _section(broker: SecuredKafka, **changes: str | None) -> KafkaSection:
    right = {
        "bootstrap_servers": broker.address,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.cafile),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "reader",
        "sasl_plain_password": PASSWORD,
    }
    given = {name: value for name, value in (right | changes).items() if value is not None}
    return KafkaSection.model_validate(given)


class Said(NamedTuple):
    """What is said of one way to miss a broker, by which kind of fault, and after how long."""

    sentence: str
    kind: str | None
    after_s: float


def _said(settings: KafkaSection) -> Said:
    began_s = monotonic_s()
    try:
        with administrator(settings, timeout_s=TIMEOUT_S):
            return Said("connected", None, monotonic_s() - began_s)
    except KafkaUnavailable as error:
        kind = None if error.fault is None else str(error.fault.kind)
        return Said(str(error), kind, monotonic_s() - began_s)


@pytest.fixture
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Said]]:
    """Yield what is said of each way to miss a broker."""
    users = {"reader": PASSWORD}
    with (
        secured_kafka(tmp_path_factory.mktemp("secured"), plain=users, scram=users) as broker,
        socket.create_server((HOST, 0)) as mute,
        ThreadPoolExecutor(16) as threads,
    ):
        without: dict[str, str | None] = dict.fromkeys(
            ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
        )
        plain: dict[str, str | None] = without | {
            "security_protocol": "PLAINTEXT",
            "ssl_cafile": None,
        }
        ways: dict[str, dict[str, str | None]] = {
            "right": {},
            "no such file": {"ssl_cafile": "/no/such/ca.pem"},
            "no such mechanism": {"sasl_mechanism": "GSSAPI"},
            "refused": plain | {"bootstrap_servers": f"{HOST}:{free_port()}"},
            "mute": plain | {"bootstrap_servers": f"{HOST}:{mute.getsockname()[1]}"},
            "no name": plain | {"bootstrap_servers": f"{NO_NAME}:9092"},
            "untrusted": {"ssl_cafile": None},
            "wrong password": {"sasl_plain_password": WRONG},
            "wrong scram": {"sasl_plain_password": WRONG, "sasl_mechanism": "SCRAM-SHA-256"},
            "plain to tls": plain,
            "tls to plain": {"bootstrap_servers": broker.plain},
            "no login": without | {"security_protocol": "SSL"},
            "login to plain": {
                "bootstrap_servers": broker.plain, "security_protocol": "SASL_PLAINTEXT"
            },
        }  # fmt: skip
        found = threads.map(_said, (_section(broker, **changes) for changes in ways.values()))
        yield dict(zip(ways, found, strict=True))


# By each way: the kind of the fault, and words of its sentence.
CAUSES: dict[str, tuple[str | None, list[str]]] = {
    "right": (None, ["connected"]),
    "refused": (None, ["ECONNREFUSED"]),
    "mute": (None, ["timed out"]),
    "no name": (None, [NO_NAME, "not known"]),
    "no such file": (
        "unusable_file",
        ["[kafka] ssl_cafile = /no/such/ca.pem", "No such file"],
    ),
    "no such mechanism": ("mechanism_disabled", ["[kafka] sasl_mechanism = GSSAPI"]),
    "untrusted": ("untrusted_certificate", ["not trusted here", "[kafka] ssl_cafile"]),
    "wrong password": ("wrong_password", ["sasl_plain_password", "Invalid username or password"]),
    "wrong scram": ("wrong_password", ["sasl_plain_password", "SCRAM-SHA-256"]),
    "plain to tls": ("needs_tls", ["speaks TLS, and we do not"]),
    "tls to plain": ("no_tls", ["speaks no TLS, and we do"]),
    "no login": (
        "needs_login",
        ["wants a login", "SASL_SSL", "OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"],
    ),
    "login to plain": ("no_login", ["takes no login"]),
}


# One test: each process that had a part of it would start a broker and miss it in all ways.
def test_the_cause_is_said(said: dict[str, Said]) -> None:
    assert said.keys() == CAUSES.keys()
    for way, (kind, words) in CAUSES.items():
        found = said[way]
        assert [word for word in words if word not in found.sentence] == [], (way, found.sentence)
        assert found.kind == kind, way
    # A fault of security is not waited for.
    took = {way: one.after_s for way, one in said.items() if one.kind is not None}
    assert len(took) == 9
    # Half of the time limit: all are tried at once, and the machine may be busy.
    assert max(took.values()) < TIMEOUT_S / 2, took
    # No sentence holds a password or a second line.
    together = "".join(one.sentence for one in said.values())
    assert [word for word in (PASSWORD, WRONG, "\n") if word in together] == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KafkaConnectionError("111 ECONNREFUSED"), "111 ECONNREFUSED"),
        (KafkaConnectionError(), f"the broker closed the connection of SSL; {ASKED}"),
        (InvalidReceiveError("Invalid\nframe"), f"InvalidReceiveError Invalid frame; {ASKED}"),
        # OpenSSL 3.0 of Debian 12 says so where later ones say UNEXPECTED_EOF.
        (
            KafkaConnectionError("Handshake failed: TLS/SSL connection has been closed (EOF)"),
            f"Handshake failed: TLS/SSL connection has been closed (EOF); {ASKED}",
        ),
        (
            SaslAuthenticationFailedError("SaslAuthenticationFailedError: no"),
            "SaslAuthenticationFailedError: no",
        ),
        (SaslAuthenticationFailedError(), "SaslAuthenticationFailedError"),
    ],
)
def test_a_reason_is_one_line_that_names_the_error_once(error: Exception, reason: str) -> None:
    assert reason_of(error, security_protocol="SSL") == reason


class _Net:
    """What a client of kafka-python keeps of its network."""


CONFIG = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}


def _connection(net: _Net) -> SimpleNamespace:
    return SimpleNamespace(net=net, config=CONFIG, node_id="bootstrap-0")


@pytest.mark.parametrize(
    "cut", [RequestTimedOutError("after 112 ms"), KafkaConnectionError("Connection timed out")]
)
def test_the_time_limit_that_cuts_the_last_attempt_hides_no_refusal_before_it(
    monkeypatch: pytest.MonkeyPatch, cut: Exception
) -> None:
    monkeypatch.setattr(kafka_failures, "_lost", lambda *_: None)
    net = _Net()
    assert why_lost(net, since_s=0.0) is None
    for error in (SaslAuthenticationFailedError("no"), cut):
        kafka_failures._note_lost(_connection(net), error)
    assert "sasl_plain_password (no)" in (why_lost(net, since_s=0.0) or "")
    assert why_lost(net, since_s=monotonic_s()) is None


def test_a_time_limit_is_said_where_nothing_else_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_failures, "_lost", lambda *_: None)
    net = _Net()
    error = RequestTimedOutError("after 112 ms")
    kafka_failures._note_lost(_connection(net), error)
    assert "after 112 ms" in (why_lost(net, since_s=0.0) or "")
