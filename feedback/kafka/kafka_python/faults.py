"""kafka-python's errors as ours, and their faults of security. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from kafka.errors import (
    AuthorizationError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    IllegalSaslStateError,
    InvalidReceiveError,
    KafkaError,
    OffsetOutOfRangeError,
    SaslAuthenticationFailedError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedSaslMechanismError,
)

from feedback.errors import KafkaUnavailable, SecurityFault, SecurityKind
from feedback.kafka.errors import (
    ClusterRefused,
    GroupRefused,
    KafkaFault,
    OffsetGone,
    TopicAbsent,
    TopicExists,
    TopicRefused,
)
from feedback.security import KAFKA, SettingNames, causes, fault, of_tls
from feedback.settings.settings import KafkaSection

Unavailable = TypeVar("Unavailable", bound=KafkaUnavailable)

_RIGHTS: dict[type[KafkaError], str] = {
    TopicAuthorizationFailedError: TopicRefused.correction,
    GroupAuthorizationFailedError: GroupRefused.correction,
    ClusterAuthorizationFailedError: ClusterRefused.correction,
    TransactionalIdAuthorizationFailedError: "allow it the transactional id, with Write",
}
# A TLS alert, read as the length of a frame: type 21, version 3.x.
_ALERT = 0x1503
_LONGEST = 200


class Faulty(KafkaError):  # type: ignore[misc]
    """An error of kafka-python with the fault of security that is its cause.

    Args:
        fault: the cause.
    """

    def __init__(self, fault: SecurityFault) -> None:
        super().__init__(fault.said)
        self.fault = fault


def fault_of(
    error: BaseException, *, mechanism: str | None = None, operation: str = ""
) -> SecurityFault | None:
    """Return the fault of security behind an error; None where there is none.

    Args:
        mechanism: the setting `sasl_mechanism`.
        operation: on topics, as `Read`, where the caller knows it: brokers do not say it.
    """
    for one in causes(error):
        if isinstance(one, Faulty):
            return one.fault
        if (found := _of_kafka(one, mechanism, operation)) is not None:
            return found
    return of_tls(error, KAFKA)


def _of_kafka(error: BaseException, mechanism: str | None, operation: str) -> SecurityFault | None:
    words = _words(error)
    match error:
        case SaslAuthenticationFailedError():
            return fault(SecurityKind.PASSWORD, _names(mechanism), words)
        case UnsupportedSaslMechanismError():
            now = f"change [kafka] sasl_mechanism = {mechanism}"
            return fault(SecurityKind.MECHANISM, KAFKA, words, more=now)
        case IllegalSaslStateError():
            return fault(SecurityKind.NO_LOGIN, KAFKA)
        case InvalidReceiveError() if _is_alert(words):
            return fault(SecurityKind.NEEDS_TLS, KAFKA)
        case AuthorizationError():
            more = _RIGHTS.get(type(error), "allow it this")
            more = more.format(operation=f", with {operation}" if operation else "")
            return fault(SecurityKind.RIGHT, KAFKA, f"{type(error).__name__} {words}", more=more)
    return None


def _names(mechanism: str | None) -> SettingNames:
    if mechanism == "OAUTHBEARER":
        return KAFKA._replace(login="the token in [kafka] sasl_oauth_token_file")
    return KAFKA


def _is_alert(words: str) -> bool:
    return any(int(one) >> 16 == _ALERT for one in re.findall(r"\b\d{1,10}\b", words))


def _words(error: Any) -> str:
    """Return the words of the broker, without the error's own name."""
    text = " ".join(str(error.args[0]).split()) if error.args and error.args[0] else ""
    return text.removeprefix(f"{type(error).__name__}:").strip()[:_LONGEST]


def unavailable(
    kind: type[Unavailable],
    error: BaseException,
    settings: KafkaSection,
    *,
    why: SecurityFault | None = None,
    operation: str = "",
) -> Unavailable:
    """Return our error for one of kafka-python, in a sentence.

    Args:
        operation: see `fault_of`.
        why: the fault of security of the last connection, where the error itself names none.
    """
    found = fault_of(error, mechanism=settings.sasl_mechanism, operation=operation) or why
    said = in_words(error) if found is None else found.said
    return kind(f"Kafka at {settings.bootstrap_servers}: {said}").because(found)


def in_words(error: BaseException) -> str:
    """Return the first line of an error of kafka-python; some begin with their own name.

    >>> in_words(SaslAuthenticationFailedError("no"))
    'SaslAuthenticationFailedError no'
    """
    detail = str(error.args[0]).splitlines()[0] if error.args and error.args[0] else ""
    name = type(error).__name__
    return detail if detail.startswith(name) else f"{name} {detail}".strip()


# The kinds of our own, the special ones first.
_KINDS: tuple[tuple[type[KafkaError], type[KafkaFault]], ...] = (
    (UnknownTopicOrPartitionError, TopicAbsent),
    (TopicAlreadyExistsError, TopicExists),
    (TopicAuthorizationFailedError, TopicRefused),
    (GroupAuthorizationFailedError, GroupRefused),
    (ClusterAuthorizationFailedError, ClusterRefused),
    (OffsetOutOfRangeError, OffsetGone),
)


def fault_from(error: KafkaError, settings: KafkaSection, *, operation: str = "") -> KafkaFault:
    """Return the error of the port for one of kafka-python.

    Args:
        operation: see `fault_of`.
    """
    kind = next((ours for theirs, ours in _KINDS if isinstance(error, theirs)), KafkaFault)
    found = unavailable(kind, error, settings, operation=operation)
    found.is_passing, found.words = bool(error.retriable), in_words(error)
    return found


@contextmanager
def faults(settings: KafkaSection, *, operation: str = "") -> Iterator[None]:
    """Turn an error of kafka-python in the block into one of the port.

    Raises:
        KafkaFault: Kafka did not answer, or refused the request.
    """
    try:
        yield
    except KafkaError as error:
        raise fault_from(error, settings, operation=operation) from error
    except (ValueError, OSError) as error:
        # For example an invalid address, or a certificate that cannot be read.
        raise KafkaFault(f"the [kafka] settings do not work: {error}") from error
