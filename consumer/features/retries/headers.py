"""The headers of a record in a retry topic, written and read back. Pure.

Ours stand behind those that were sent, `onceward-due` first: the next run sees the headers before
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from consumer.handlers.backoff import delay_name
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery
from feedback.errors import InvalidMessage, SettingsError
from feedback.records.envelope import (
    Envelope,
    Headers,
    Record,
    decode_headers,
    encode_headers,
    payload_sha256,
)
from feedback.records.failure_headers import (
    DLQ_ATTEMPTS,
    DLQ_CONSUMER_GROUP,
    DLQ_EXCEPTION_MESSAGE,
    DLQ_FAILED_AT,
    DLQ_FIRST_FAILED_AT,
    DLQ_REASON,
    DLQ_STAGE,
    MAX_GENERATION,
    MAX_NUMBER,
    MAX_PARTITION,
    ORIGINAL_OFFSET,
    ORIGINAL_PARTITION,
    ORIGINAL_TIMESTAMP,
    decimal,
    number_of,
    originals,
    utf8,
    without_failure,
)


class WakeUp(NamedTuple):
    """One request that waits for its next run; its RETRYING row is committed.

    Attributes:
        delivery: the request that runs again.
        generation: of the run that failed, and of the row.
        code, message: why it failed.
        runs: how many runs of this attempt there were.
        first_failed_at, failed_at: epoch ms of the first failure and of this one.
    """

    delivery: Delivery
    generation: int
    due_at: int
    delay_ms: int
    code: str | None
    message: str | None
    runs: int
    first_failed_at: int
    failed_at: int


LONGEST_NAME = 249


def retry_topic(topic: str, group: str, delay_ms: int) -> str:
    """Return the topic for a delay.

    >>> retry_topic("payments", "g", 5_000)
    'payments.g.retry.5s'
    """
    return f"{topic}.{group}.retry.{delay_name(delay_ms)}"


def retry_topics(handlers: Iterable[Handler], group: str) -> Mapping[str, tuple[Handler, int]]:
    """Return the retry topics of these handlers, each with whose it is and its delay in ms.

    Raises:
        SettingsError: a name is longer than Kafka allows.
    """
    found: dict[str, tuple[Handler, int]] = {}
    for handler in handlers:
        if handler.retries is None:
            continue
        for delay_ms in handler.retries.topic_delays_ms:
            name = retry_topic(handler.topic, group, delay_ms)
            if len(name) > LONGEST_NAME:
                raise SettingsError(
                    f"the retry topic {name} has {len(name)} characters, and Kafka takes "
                    f"{LONGEST_NAME}: shorten [kafka] group or the topic"
                )
            found[name] = (handler, delay_ms)
    return found


DUE = "onceward-due"
GENERATION = "onceward-generation"
# Of a record that was set aside before, whose ORIGINAL_TIMESTAMP is that of its first place.
TIMESTAMP = "onceward-timestamp"
OURS = (DUE, GENERATION, TIMESTAMP)
STAGE = "retry"

_LARGEST = {ORIGINAL_PARTITION: MAX_PARTITION, GENERATION: MAX_GENERATION}


class DueWakeUp(NamedTuple):
    """A wake-up as it was read.

    Attributes:
        delivery: the request to run, if the journal still wants it.
        due_at: epoch ms before which it waits.
    """

    delivery: Delivery
    due_at: int


def wakeup_headers(one: WakeUp, *, group: str) -> tuple[tuple[str, bytes], ...]:
    """Return the headers of a wake-up's record."""
    record, envelope = one.delivery.record, one.delivery.envelope
    # Named again: a record of a foreign client has no id of its own.
    named = Envelope(envelope.request_id, envelope.attempt, one.delivery.deadline_at)
    # A handled dead letter carries the headers of its failure: they stay.
    is_letter = one.delivery.handler.dead_letters_of is not None
    return (
        *encode_headers(named, record.headers if is_letter else without_failure(record.headers)),
        (DUE, decimal(one.due_at)),
        (GENERATION, decimal(one.generation)),
        *_timestamp(record),
        *originals(record),
        (DLQ_REASON, utf8(one.code or "")),
        (DLQ_STAGE, utf8(STAGE)),
        (DLQ_EXCEPTION_MESSAGE, utf8(one.message or "")),
        (DLQ_CONSUMER_GROUP, utf8(group)),
        (DLQ_ATTEMPTS, decimal(one.runs)),
        (DLQ_FIRST_FAILED_AT, decimal(one.first_failed_at)),
        (DLQ_FAILED_AT, decimal(one.failed_at)),
    )


def _timestamp(record: Record) -> Headers:
    names = {name for name, _ in record.headers}
    if record.timestamp_ms < 0 or names.isdisjoint((ORIGINAL_TIMESTAMP, TIMESTAMP)):
        return ()
    return ((TIMESTAMP, decimal(record.timestamp_ms)),)


def read_wakeup(record: Record, handler: Handler, *, now_s: float) -> DueWakeUp:
    """Return the delivery that a record of a retry topic wakes up.

    Raises:
        InvalidMessage: it is no wake-up of ours.
    """
    envelope = decode_headers(record)
    ours = _ours(record)
    due_at = _number(ours, DUE)
    if envelope.deadline_at is None:
        raise InvalidMessage("a retry record names no deadline")
    delivery = Delivery(
        record=Record(
            topic=handler.topic,
            # Of a record that was set aside before they name its first place, which anybody may
            # have written: the row's own place counts, once the run is granted.
            partition=_number(ours, ORIGINAL_PARTITION, default=record.partition),
            offset=_number(ours, ORIGINAL_OFFSET, default=0),
            timestamp_ms=_number(
                ours, TIMESTAMP if TIMESTAMP in ours else ORIGINAL_TIMESTAMP, default=-1
            ),
            key=record.key,
            value=record.value,
            headers=_sent(record),
        ),
        envelope=envelope,
        handler=handler,
        payload_sha256=payload_sha256(record.key, record.value),
        deadline_at=envelope.deadline_at,
        buffered_s=now_s,
        wakes=_number(ours, GENERATION),
    )
    return DueWakeUp(delivery, due_at)


def _sent(record: Record) -> tuple[tuple[str, bytes], ...]:
    names = [name for name, _ in record.headers]
    return record.headers[: _last(names, DUE)]


def _ours(record: Record) -> dict[str, bytes]:
    # The first ORIGINAL_* wins, wherever it stands; of the rest the last, which is ours.
    first = dict(reversed(record.headers))
    last = dict(record.headers)
    return {**first, **{name: last[name] for name in OURS if name in last}}


def _last(names: list[str], name: str) -> int:
    return len(names) - 1 - names[::-1].index(name)


def _number(headers: dict[str, bytes], name: str, *, default: int | None = None) -> int:
    number = number_of(headers.get(name), largest=_LARGEST.get(name, MAX_NUMBER))
    if number is not None:
        return number
    if default is not None:
        return default
    raise InvalidMessage(f"header {name} of a retry record is not a decimal number")
