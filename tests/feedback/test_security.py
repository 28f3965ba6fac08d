"""A fault of security is told from an outage by the words of three libraries."""

from __future__ import annotations

import pickle
import ssl

import pytest
from kafka.errors import (
    InvalidReceiveError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    NoPermissionError,
    ResponseError,
)

from feedback.errors import ExitCode, KafkaUnavailable, SecurityFault, SecurityKind
from feedback.kafka.kafka_python.faults import fault_of as of_kafka
from feedback.redis.faults import fault_of as of_redis
from feedback.redis.server import refusal_code
from feedback.security import REDIS, fault, of_database, of_tls, of_tls_words
from feedback.sql.refusals import of_connecting, of_statement

JOURNAL = of_database("journal")
SERVER = 'connection failed: connection to server at "db", port 5432 failed: '
SCRIPT = "script: 0123, on @user_script:5."


def _verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = code, "why"
    return error


def _wrapped(error: BaseException) -> ConnectionError:
    try:
        try:
            raise error
        except OSError as cause:
            raise ConnectionError("in words") from cause
    except ConnectionError as wrapped:
        return wrapped


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (9, SecurityKind.EXPIRED),
        (10, SecurityKind.EXPIRED),
        (18, SecurityKind.UNTRUSTED),
        (20, SecurityKind.UNTRUSTED),
        (62, SecurityKind.HOST_NAME),
        (64, SecurityKind.HOST_NAME),
    ],
)
def test_a_certificate_that_is_refused_is_said_by_its_cause(code: int, kind: SecurityKind) -> None:
    error = _wrapped(_verification(code))
    found = of_tls(error, REDIS)
    assert found is not None
    assert (found.kind, found.server) == (kind, "redis")
    assert found.said.endswith("(why)")
    # The same error tells nothing of a call that began while it was handled.
    assert of_tls(error, REDIS, error.__cause__) is None


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("WRONG_VERSION_NUMBER", SecurityKind.NO_TLS),
        ("SSL error: wrong version number", SecurityKind.NO_TLS),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", SecurityKind.CLIENT_CERTIFICATE),
        ("SSL error: tlsv1 alert unknown ca", SecurityKind.CLIENT_CERTIFICATE),
        ("SSLV3_ALERT_BAD_CERTIFICATE", SecurityKind.CLIENT_CERTIFICATE),
        ("UNEXPECTED_EOF_WHILE_READING", None),
        ("bad certificate", None),
    ],
)
def test_words_of_openssl(words: str, kind: SecurityKind | None) -> None:
    assert of_tls_words(words) == kind


@pytest.mark.parametrize(
    ("error", "kind", "named"),
    [
        (SaslAuthenticationFailedError("no"), SecurityKind.PASSWORD, "sasl_plain_password"),
        (UnsupportedSaslMechanismError(), SecurityKind.MECHANISM, "sasl_mechanism = PLAIN"),
        # 0x15030300: a TLS alert, read as the length of a frame.
        (InvalidReceiveError("Invalid frame length: 352518912"), SecurityKind.NEEDS_TLS, "SSL"),
        (InvalidReceiveError("Invalid frame length: 5"), None, ""),
        (TopicAuthorizationFailedError("pay"), SecurityKind.RIGHT, "pay"),
        (KafkaConnectionError("111 ECONNREFUSED"), None, ""),
        (KafkaConnectionError(_verification(10)), SecurityKind.EXPIRED, "clock"),
    ],
)
def test_errors_of_kafka(error: KafkaError, kind: SecurityKind | None, named: str) -> None:
    found = of_kafka(error, mechanism="PLAIN")
    assert (found and found.kind) == kind
    assert found is None or named in found.said


@pytest.mark.parametrize(
    ("error", "kind", "named"),
    [
        (AuthenticationError("WRONGPASS no"), SecurityKind.PASSWORD, "[redis] url"),
        (ResponseError("NOAUTH Authentication required."), SecurityKind.NEEDS_LOGIN, "[redis] url"),
        (
            AuthenticationError("ERR AUTH called without any password configured for the user"),
            SecurityKind.NO_LOGIN,
            "leave out",
        ),
        (NoPermissionError("NOPERM User u has no permissions"), SecurityKind.RIGHT, "~onceward"),
        (
            ResponseError("The user executing the script can't run this command or subcommand"),
            SecurityKind.RIGHT,
            "commands",
        ),
        (
            ResponseError(f"ACL failure in script: No permissions to publish {SCRIPT}"),
            SecurityKind.RIGHT,
            "&onceward",
        ),
        (ResponseError(f"WRONGTYPE Operation against a key {SCRIPT}"), None, ""),
        (ConnectionError("Connection closed by server."), None, ""),
        (_wrapped(_verification(62)), SecurityKind.HOST_NAME, "[redis] url"),
    ],
)
def test_errors_of_redis(error: Exception, kind: SecurityKind | None, named: str) -> None:
    found = of_redis(error, refusal_code(error))
    assert (found and found.kind) == kind
    assert found is None or (named in found.said and "@user_script" not in found.said)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ('FATAL:  password authentication failed for user "u"', SecurityKind.PASSWORD),
        ("fe_sendauth: no password supplied", SecurityKind.PASSWORD),
        ('FATAL:  role "u" does not exist', SecurityKind.PASSWORD),
        ("server does not support SSL, but SSL was required", SecurityKind.NO_TLS),
        ('no pg_hba.conf entry for host "h", user "u", no encryption', SecurityKind.NEEDS_TLS),
        ('no pg_hba.conf entry for host "h", user "u", SSL encryption', SecurityKind.RIGHT),
        ('permission denied for database "d"', SecurityKind.RIGHT),
        ('server certificate for "a" does not match host name "b"', SecurityKind.HOST_NAME),
        ("SSL error: certificate verify failed", SecurityKind.UNTRUSTED),
        ('root certificate file "/no" does not exist', SecurityKind.FILE),
        ('private key file "/k" has group or world access', SecurityKind.FILE),
        ("SSL error: tlsv13 alert certificate required", SecurityKind.CLIENT_CERTIFICATE),
        ("connection requires a valid client certificate", SecurityKind.CLIENT_CERTIFICATE),
        ("FATAL:  the database system is starting up", None),
        ("FATAL:  sorry, too many clients already", None),
        ("Connection refused", None),
    ],
)
def test_words_of_postgresql(words: str, kind: SecurityKind | None) -> None:
    found = of_connecting(f"{SERVER}{words}", JOURNAL)
    assert (found and found.kind) == kind
    assert found is None or found.server == "journal"


@pytest.mark.parametrize(
    ("text", "statement", "grant"),
    [
        ("table t", "INSERT INTO t (a) VALUES (%s)", "GRANT INSERT ON t"),
        ("table t", "UPDATE t SET a = %s FROM (SELECT 1) AS x", "GRANT UPDATE ON t"),
        ("table t", "SELECT t.a FROM t WHERE t.b = %s FOR UPDATE", "GRANT SELECT, UPDATE ON t"),
        (
            "table t",
            "INSERT INTO t (a) VALUES (%s) ON CONFLICT (a) DO UPDATE SET b = 1",
            "GRANT INSERT, UPDATE ON t",
        ),
        ("table t", "DELETE FROM t", "GRANT SELECT, DELETE ON t"),
        ("sequence t_id_seq", "INSERT INTO t (a) VALUES (%s)", "GRANT USAGE ON SEQUENCE t_id_seq"),
        ("schema public", "SELECT 1 FROM t", "GRANT USAGE ON SCHEMA public"),
    ],
)
def test_a_missing_right_of_sql_is_named_with_its_table(
    text: str, statement: str, grant: str
) -> None:
    found = of_statement(f"permission denied for {text}\nLINE 1: 4711", statement, JOURNAL)
    assert found.kind is SecurityKind.RIGHT
    assert grant in found.said
    assert "4711" not in found.said


def test_words_of_another_language_still_name_the_code() -> None:
    assert "42501" in of_statement("keine Berechtigung", "SELECT 1", JOURNAL).said


def test_an_error_keeps_its_fault_through_a_pickle() -> None:
    why: SecurityFault = fault(SecurityKind.FILE, REDIS, "no", more="ssl_ca_certs = /no")
    error = KafkaUnavailable("in words").because(why)
    assert error.exit_code is ExitCode.NOT_AVAILABLE
    assert pickle.loads(pickle.dumps(error)).fault == why
