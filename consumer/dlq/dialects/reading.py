"""Reads a record of a dead letter topic, in any dialect."""

from __future__ import annotations

from collections.abc import Callable

from consumer.dlq.dialects.connect import connect
from consumer.dlq.dialects.karafka import karafka, key_of
from consumer.dlq.dialects.onceward import onceward
from consumer.dlq.dialects.said import Said
from consumer.dlq.dialects.share import share
from consumer.dlq.dialects.smallrye import smallrye
from consumer.dlq.dialects.spring import spring
from consumer.dlq.dialects.streams import streams
from consumer.dlq.letter import DeadLetter, Dialect, Failure, Original
from feedback.errors import InvalidMessage
from feedback.records.dead_letters import DLQ_REQUEST_ID
from feedback.records.envelope import REQUEST_ID, Record, check_request_id

# A letter that was itself sent again, to the handler of dead letters, has an id of its own.
_ID_HEADERS = (DLQ_REQUEST_ID, REQUEST_ID)

_DIALECTS: tuple[tuple[Dialect, Callable[[Said], Failure | None]], ...] = (
    (Dialect.ONCEWARD, onceward),
    (Dialect.CONNECT, connect),
    (Dialect.STREAMS, streams),
    (Dialect.SHARE, share),
    (Dialect.SPRING, spring),
    (Dialect.SMALLRYE, smallrye),
    (Dialect.KARAFKA, karafka),
)


def letter_of(record: Record) -> DeadLetter:
    """Return a record as a dead letter; without known headers it still is one."""
    said = Said(record.headers)
    dialect, failure = _understood(said)
    request_id = _request_id(said, record, failure.original)
    key = key_of(said) if dialect is Dialect.KARAFKA else record.key
    return DeadLetter(record, dialect, request_id, failure, key)


def _understood(said: Said) -> tuple[Dialect, Failure]:
    for dialect, understand in _DIALECTS:
        failure = understand(said)
        if failure is not None:
            return dialect, failure
    return Dialect.NONE, Failure()


def _request_id(said: Said, record: Record, original: Original) -> str:
    for name in _ID_HEADERS:
        given = said.text(name)
        if given is not None and _is_request_id(given):
            return given
    where = (original.topic, original.partition, original.offset, original.timestamp_ms)
    topic, partition, offset, timestamp_ms = where
    if topic is None or partition is None or offset is None or timestamp_ms is None:
        return record.coordinates_id
    return Record(topic, partition, offset, timestamp_ms, None, None, ()).coordinates_id


def _is_request_id(text: str) -> bool:
    try:
        check_request_id(text)
    except InvalidMessage:
        return False
    return True
