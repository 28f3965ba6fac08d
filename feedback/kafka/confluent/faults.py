"""librdkafka's errors as ours, and their faults of security."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from feedback.errors import SecurityFault, SecurityKind
from feedback.kafka.errors import (
    ClusterRefused,
    GroupRefused,
    KafkaFault,
    OffsetGone,
    TopicAbsent,
    TopicExists,
    TopicRefused,
)
from feedback.security import KAFKA, fault, of_tls_words
from feedback.settings.settings import KafkaSection
from feedback.tls_files import Certificate, unusable_file

_KINDS: dict[int, type[KafkaFault]] = {
    KafkaError.UNKNOWN_TOPIC_OR_PART: TopicAbsent,
    KafkaError._UNKNOWN_TOPIC: TopicAbsent,
    KafkaError._UNKNOWN_PARTITION: TopicAbsent,
    KafkaError.TOPIC_ALREADY_EXISTS: TopicExists,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: TopicRefused,
    KafkaError.GROUP_AUTHORIZATION_FAILED: GroupRefused,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: ClusterRefused,
    KafkaError.OFFSET_OUT_OF_RANGE: OffsetGone,
    KafkaError._AUTO_OFFSET_RESET: OffsetGone,
}
# The operation on topics for which brokers may refuse a reader.
READ = "Read"
ABSENT = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}
_PASSING = {
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._WAIT_COORD,
}
_LONGEST = 200


def fault_of(
    error: Any, settings: KafkaSection, *, operation: str = "", topic: str = ""
) -> SecurityFault | None:
    """Return the fault of security behind an error; None where there is none.

    Args:
        error: librdkafka's.
        operation: on topics, as `Read`, where the caller knows it: brokers do not say it.
        topic: of which the error is, where the caller knows it: librdkafka seldom says it.
    """
    words = words_of(error)
    code = error.code()
    if code == KafkaError._AUTHENTICATION:
        if "unsupported" in words.lower():
            now = f"change [kafka] sasl_mechanism = {settings.sasl_mechanism}"
            return fault(SecurityKind.MECHANISM, KAFKA, words, more=now)
        return fault(SecurityKind.PASSWORD, KAFKA, words)
    if code == KafkaError._SSL:
        tls = _of_tls(words)
        return None if tls is None else fault(tls, KAFKA, words)
    if code == KafkaError._INVALID_ARG:
        return unusable_file_of(settings)
    kind = _KINDS.get(code)
    if kind is not None and kind.correction:
        name = settings.group if kind is GroupRefused else topic
        words = f"{error.name()} {name} {words.removeprefix(error.name())}"
        more = kind.correction.format(operation=f", with {operation}" if operation else "")
        return fault(SecurityKind.RIGHT, KAFKA, " ".join(words.split()), more=more)
    return None


def fault_from(
    error: Any, settings: KafkaSection, *, operation: str = "", topic: str = ""
) -> KafkaFault:
    """Return the error of the port for one of librdkafka; see `fault_of`."""
    found = fault_of(error, settings, operation=operation, topic=topic)
    said = words_of(error) if found is None else found.said
    kind = _KINDS.get(error.code(), KafkaFault)
    ours = kind(f"Kafka at {settings.bootstrap_servers}: {said}").because(found)
    ours.is_passing, ours.words = error.code() in _PASSING, words_of(error)
    return ours


def unusable_file_of(settings: KafkaSection) -> SecurityFault | None:
    """Return the fault of the first file of TLS that cannot be used; None where all can."""
    secret = settings.ssl_password
    password = None if secret is None else secret.get_secret_value()
    return unusable_file(
        KAFKA,
        cafiles={
            "[kafka] ssl_cafile": settings.ssl_cafile,
            "[kafka] ssl_crlfile": settings.ssl_crlfile,
        },
        certificate=Certificate(settings.ssl_certfile, settings.ssl_keyfile, password),
    )


def _of_tls(words: str) -> SecurityKind | None:
    """Return the kind of a fault of TLS by the words of OpenSSL in librdkafka's.

    Of a certificate that is refused it does not say why; see `ClientStanding`.
    """
    if "certificate verify failed" in words.lower():
        return SecurityKind.UNTRUSTED
    return of_tls_words(words)


@contextmanager
def faults(settings: KafkaSection, *, operation: str = "") -> Iterator[None]:
    """Turn an error of librdkafka in the block into one of the port.

    Raises:
        KafkaFault: Kafka did not answer, or refused the request.
    """
    try:
        yield
    except KafkaException as error:
        raise fault_from(error.args[0], settings, operation=operation) from error


def words_of(error: Any) -> str:
    """Return librdkafka's name and words of an error, in one line."""
    text = " ".join(str(error.str()).split())[:_LONGEST]
    return f"{error.name()} {text}".strip()
