"""Letters as the unit tests need them."""

from __future__ import annotations

from typing import Any

from consumer.dlq.dialects.letter_headers import letter_of
from consumer.dlq.letter import Letter
from feedback.records.envelope import Headers, Record

FAILED_AT = 1_700_000_005_000

# What every letter of ours has, unless told otherwise.
OURS = {
    "onceward-request-id": "a",
    "onceward-attempt": "1",
    "ORIGINAL_TOPIC": "payments",
    "ORIGINAL_PARTITION": "3",
    "ORIGINAL_OFFSET": "41",
    "ORIGINAL_TIMESTAMP": "1700000000000",
    "DLQ_REASON": "HANDLER_ERROR",
    "DLQ_STAGE": "run",
    "DLQ_EXCEPTION_CLASS": "builtins.OSError",
    "DLQ_EXCEPTION_MESSAGE": "OSError: the bank is on fire",
    "DLQ_STACKTRACE": "Traceback (most recent call last):\n  …\nOSError",
    "DLQ_CONSUMER_GROUP": "g",
    "DLQ_ATTEMPTS": "1",
    "DLQ_FIRST_FAILED_AT": str(FAILED_AT - 1000),
    "DLQ_FAILED_AT": str(FAILED_AT),
}


def headers(**changes: str | None) -> Headers:
    """Return the headers of a letter of ours; None leaves one out."""
    told = {**OURS, **{name.replace("__", "-"): value for name, value in changes.items()}}
    return tuple((name, value.encode()) for name, value in told.items() if value is not None)


def record(given: Headers, **changes: Any) -> Record:
    """Return a record of a dead letter topic."""
    facts: dict[str, Any] = {
        "topic": "payments.g.dlq",
        "partition": 3,
        "offset": 7,
        "timestamp_ms": FAILED_AT + 20,
        "key": b"card-1",
        "value": b'{"amount": 5}',
        "headers": tuple(given),
    }
    return Record(**{**facts, **changes})


def letter(request_id: str = "a", *, of: dict[str, Any] | None = None, **said: Any) -> Letter:
    """Return a letter of ours.

    Args:
        of: changes to the record itself.
        said: changes to its headers.
    """
    given = headers(**{"onceward__request__id": request_id, **said})
    return letter_of(record(given, **(of or {})))


def foreign(request_id: str = "a", offset: int = 41, **said: str) -> Letter:
    """Return a letter of Kafka Connect for a record that has an id of ours.

    Args:
        offset: of the record.
        said: further headers.
    """
    told = {
        "onceward-request-id": request_id,
        "__connect.errors.topic": "payments",
        "__connect.errors.partition": "3",
        "__connect.errors.offset": str(offset),
        **said,
    }
    given = tuple((name, value.encode()) for name, value in told.items())
    return letter_of(record(given, topic="connect-dlq"))
