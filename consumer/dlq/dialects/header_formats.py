"""The dialects of dead letters as one table: the header names of each, and how they are read."""

from __future__ import annotations

import re
from dataclasses import dataclass

from consumer.dlq.letter import Dialect
from feedback.records import failure_headers as ours


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderFormat:
    """The headers of one dialect; None is a header that it does not write.

    Attributes:
        marks: the letter is of this dialect when one of these headers is there.
        needs_all_marks: whether all of them must be there instead.
        own: matches the names of all headers that the dialect writes; None where the user's
            headers cannot be told from its own. Where a user's header may look like the dialect's,
            only whole names count: a `source_system` in a Karafka letter is the user's.
        key: the key of the failed record. It replaces the letter's own, but in our dialect.
        reason: a header; `constant_reason` and the class name follow it.
        class_end: what ends the class name in its header.
        cause: the message of the exception's cause, added to its message.
        is_binary: whether numbers are big-endian, not text.
        is_first: whether a repeated header counts by its first value, not only for the origin.
    """

    dialect: Dialect
    marks: tuple[str, ...]
    needs_all_marks: bool = False
    own: re.Pattern[str] | None = None
    topic: str
    partition: str
    offset: str
    timestamp: str | None = None
    key: str | None = None
    reason: str | None = None
    constant_reason: str | None = None
    stage: str | None = None
    exception_class: tuple[str, ...] = ()
    class_end: str | None = None
    exception_message: str | None = None
    cause: str | None = None
    stack: str | None = None
    attempts: str | None = None
    first_failed_at: str | None = None
    failed_at: str | None = None
    redrive_id: str | None = None
    redrive_by: str | None = None
    group: str | None = None
    is_binary: bool = False
    is_first: bool = False


# The names of docs: Kafka records.
_ONCEWARD = HeaderFormat(
    dialect=Dialect.ONCEWARD,
    marks=(ours.DLQ_REASON, ours.DLQ_CONSUMER_GROUP),
    topic=ours.ORIGINAL_TOPIC,
    partition=ours.ORIGINAL_PARTITION,
    offset=ours.ORIGINAL_OFFSET,
    timestamp=ours.ORIGINAL_TIMESTAMP,
    key=ours.ORIGINAL_KEY,
    reason=ours.DLQ_REASON,
    stage=ours.DLQ_STAGE,
    exception_class=(ours.DLQ_EXCEPTION_CLASS,),
    exception_message=ours.DLQ_EXCEPTION_MESSAGE,
    stack=ours.DLQ_STACKTRACE,
    attempts=ours.DLQ_ATTEMPTS,
    first_failed_at=ours.DLQ_FIRST_FAILED_AT,
    failed_at=ours.DLQ_FAILED_AT,
    redrive_id=ours.DLQ_REDRIVE_ID,
    redrive_by=ours.DLQ_REDRIVE_BY,
    group=ours.DLQ_CONSUMER_GROUP,
)
# KIP-298: of a sink connector with `errors.deadletterqueue.context.headers.enable`.
_CONNECT = HeaderFormat(
    dialect=Dialect.CONNECT,
    marks=(
        "__connect.errors.topic",
        "__connect.errors.stage",
        "__connect.errors.connector.name",
    ),
    own=re.compile(r"__connect\.errors\."),
    topic="__connect.errors.topic",
    partition="__connect.errors.partition",
    offset="__connect.errors.offset",
    stage="__connect.errors.stage",
    exception_class=("__connect.errors.exception.class.name",),
    exception_message="__connect.errors.exception.message",
    stack="__connect.errors.exception.stacktrace",
    group="__connect.errors.connector.name",
)
# KIP-1034: the exception is `class: message`.
_STREAMS = HeaderFormat(
    dialect=Dialect.STREAMS,
    marks=("__streams.errors.topic", "__streams.errors.exception"),
    own=re.compile(r"__streams\.errors\."),
    topic="__streams.errors.topic",
    partition="__streams.errors.partition",
    offset="__streams.errors.offset",
    exception_class=("__streams.errors.exception",),
    class_end=": ",
    exception_message="__streams.errors.message",
    stack="__streams.errors.stacktrace",
)
# KIP-1191: the broker itself writes the letter of a share group. All its messages are whole
# sentences, under one exception class.
_SHARE = HeaderFormat(
    dialect=Dialect.SHARE,
    marks=("__dlq.errors.topic", "__dlq.errors.group"),
    own=re.compile(r"__dlq\.errors\."),
    topic="__dlq.errors.topic",
    partition="__dlq.errors.partition",
    offset="__dlq.errors.offset",
    constant_reason="SHARE_GROUP",
    exception_message="__dlq.errors.message",
    attempts="__dlq.errors.delivery.count",
    group="__dlq.errors.group",
)
# Quarkus: its headers stand before the record's own.
_SMALLRYE = HeaderFormat(
    dialect=Dialect.SMALLRYE,
    marks=("dead-letter-reason", "dead-letter-topic", "dead-letter-exception-class-name"),
    own=re.compile(
        r"dead-letter-(reason|cause|topic|partition|offset|exception-class-name|cause-class-name)\Z"
    ),
    topic="dead-letter-topic",
    partition="dead-letter-partition",
    offset="dead-letter-offset",
    exception_class=("dead-letter-exception-class-name",),
    exception_message="dead-letter-reason",
    cause="dead-letter-cause",
    is_first=True,
)


def _spring(prefix: str, kind: str, marks: tuple[str, ...]) -> HeaderFormat:
    """Return a format of Spring for Apache Kafka.

    The listener container wraps the error into an exception of its own, so the cause is the class.

    Args:
        prefix: `kafka_dlt-` by default, `kafka_` of retry topics.
        kind: `key-` where the key could not be read, and its exception is reported.
    """
    return HeaderFormat(
        dialect=Dialect.SPRING,
        marks=tuple(f"{prefix}{mark}" for mark in marks),
        own=re.compile(
            r"kafka_dlt-|kafka_original-|kafka_(key-)?exception-"
            r"|springDeserializerException(Key|Value)\Z"
            r"|retry_topic-(attempts|original-timestamp|backoff-timestamp)\Z"
        ),
        topic=f"{prefix}original-topic",
        partition=f"{prefix}original-partition",
        offset=f"{prefix}original-offset",
        timestamp=f"{prefix}original-timestamp",
        exception_class=(f"{prefix}{kind}exception-cause-fqcn", f"{prefix}{kind}exception-fqcn"),
        exception_message=f"{prefix}{kind}exception-message",
        stack=f"{prefix}{kind}exception-stacktrace",
        attempts="retry_topic-attempts",
        group=f"{prefix}original-consumer-group",
        is_binary=True,
    )


def _karafka(prefix: str) -> HeaderFormat:
    """Return a format of Karafka: `source_*`, and `original_*` before its version 2.5."""
    return HeaderFormat(
        dialect=Dialect.KARAFKA,
        marks=(f"{prefix}topic", f"{prefix}offset"),
        needs_all_marks=True,
        own=re.compile(prefix + r"(topic|partition|offset|consumer_group|attempts|key|trace_id)\Z"),
        topic=f"{prefix}topic",
        partition=f"{prefix}partition",
        offset=f"{prefix}offset",
        key=f"{prefix}key",
        constant_reason="KARAFKA",  # the letter does not name the error
        attempts=f"{prefix}attempts",
        group=f"{prefix}consumer_group",
    )


# Tried in this order. Ours is first: a letter of another system that a worker of ours took and
# failed is ours.
FORMATS = (
    _ONCEWARD,
    _CONNECT,
    _STREAMS,
    _SHARE,
    *(
        _spring(prefix, kind, marks)
        for prefix in ("kafka_dlt-", "kafka_")
        for kind, marks in (
            ("", ("exception-fqcn",)),
            ("key-", ("original-topic", "key-exception-fqcn")),
        )
    ),
    _SMALLRYE,
    _karafka("source_"),
    _karafka("original_"),
)
