"""The answers of Kafka after which a record is certainly not stored. Pure."""

from __future__ import annotations

from kafka.errors import (
    AuthorizationError,
    InvalidRecordError,
    InvalidTopicError,
    KafkaError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)

from feedback.kafka.kafka_python.faults import fault_of, in_words
from feedback.kafka.send_errors import RecordNotSent, TopicForbidden

_CERTAINLY_REFUSED = (
    InvalidRecordError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)


def refusal_of(error: KafkaError) -> RecordNotSent | None:
    """Return the error for a broker's answer that stores no record; None for others."""
    if isinstance(error, AuthorizationError):
        return forbidden(error)
    if isinstance(error, _CERTAINLY_REFUSED):
        return RecordNotSent(f"Kafka refused the record: {in_words(error)}")
    return None


def forbidden(error: AuthorizationError) -> TopicForbidden:
    """Return the error for a broker that lets this user not write."""
    topic = error.args[0] if isinstance(error, TopicAuthorizationFailedError) else None
    fault = fault_of(error, operation="Write")
    said = in_words(error) if fault is None else fault.said
    return TopicForbidden(f"Kafka refused the record: {said}", topic).because(fault)
