"""A wait record, written and read back. Pure.

One stands in `<topic>.<group>.wait` from before a request's offset is committed until it has ended
(docs: Kafka records): key is the request's id, value that of the request, and a tombstone says that
it has ended. The topic is compacted, so that it holds unfinished requests.

Ours stand behind the headers that were sent, `onceward-expires` first: the handler sees the headers
before it, repeated and binary ones too.
"""

from __future__ import annotations

from typing import NamedTuple

from feedback.errors import InvalidMessage
from feedback.kafka.outgoing import Outgoing
from feedback.records.envelope import MAX_EPOCH_MS, Record, check_request_id
from feedback.records.failure_headers import (
    MAX_GENERATION,
    MAX_NUMBER,
    MAX_PARTITION,
    ORIGINAL_KEY,
    ORIGINAL_OFFSET,
    ORIGINAL_PARTITION,
    ORIGINAL_TIMESTAMP,
    ORIGINAL_TOPIC,
    decimal,
    number_of,
    utf8,
)

EXPIRES = "onceward-expires"
GENERATION = "onceward-generation"
# The worker that runs it or is about to; empty where it was given back before it began.
HOLDER = "onceward-worker"
STATUS = "onceward-status"
# Of the holder's declaration: a keeper without a journal goes by it.
EFFECT = "onceward-effect"
IN_DOUBT = "onceward-in-doubt"
# A null value would be a tombstone.
NULL_VALUE = "onceward-null-value"
GIVEN_BACK = ""

_OURS = frozenset({EXPIRES, GENERATION, HOLDER, NULL_VALUE, EFFECT, IN_DOUBT})
_LARGEST = {ORIGINAL_PARTITION: MAX_PARTITION, GENERATION: MAX_GENERATION}
_SUFFIX = "wait"


def wait_topic(topic: str, group: str) -> str:
    """Return where the wait records of a group on this topic are.

    >>> wait_topic("payments", "bank")
    'payments.bank.wait'
    """
    return f"{topic}.{group}.{_SUFFIX}"


def source_topic(name: str, group: str) -> str | None:
    """Return the topic that a wait topic of this group belongs to; None for any other topic.

    >>> source_topic("payments.bank.wait", "bank"), source_topic("payments", "bank")
    ('payments', None)
    """
    topic = name.removesuffix(wait_topic("", group))
    return topic if topic and topic != name else None


class WaitRecord(NamedTuple):
    """An unfinished request.

    Args:
        generation: of the taking that this record stands for: 1 is the first, each worker that
            takes it over adds 1.
        holder: the worker that has it; `GIVEN_BACK` where none has it and it has not begun; None
            where the record has no holder, as one that was written by hand.
        record: the request as it was read, with its place in its own topic.
        effect, in_doubt: as its holder declares them; None where the record does not say.
    """

    request_id: str
    generation: int
    holder: str | None
    expires_at: int
    record: Record
    effect: str | None = None
    in_doubt: str | None = None


class Tombstone(NamedTuple):
    """A tombstone: the request has ended, or is a dead letter.

    Args:
        taking: the generation of the taking alone that it ends, whose request had ended before it;
            0 where it ends all records before it.
    """

    request_id: str
    taking: int = 0


def encode_wait(wait: WaitRecord, *, group: str, partition: int | None = None) -> Outgoing:
    """Return the record of an unfinished request.

    Args:
        partition: of the wait topic. None: as the id says, so that all that is said of a request
            stands in one partition, wherever its own records do.
    """
    record = wait.record
    ours = [
        (EXPIRES, decimal(wait.expires_at)),
        (GENERATION, decimal(wait.generation)),
        (ORIGINAL_TOPIC, utf8(record.topic)),
        (ORIGINAL_PARTITION, decimal(record.partition)),
        (ORIGINAL_OFFSET, decimal(record.offset)),
    ]
    if wait.holder is not None:
        ours.append((HOLDER, utf8(wait.holder)))
    said = ((EFFECT, wait.effect), (IN_DOUBT, wait.in_doubt))
    ours += [(name, utf8(text)) for name, text in said if text is not None]
    if record.timestamp_ms >= 0:
        ours.append((ORIGINAL_TIMESTAMP, decimal(record.timestamp_ms)))
    if record.key is not None:
        # Whole, and as bytes: here it is the only place of the key.
        ours.append((ORIGINAL_KEY, record.key))
    if record.value is None:
        ours.append((NULL_VALUE, b"1"))
    return Outgoing(
        topic=wait_topic(record.topic, group),
        partition=partition,
        key=wait.request_id.encode("ascii"),
        value=b"" if record.value is None else record.value,
        headers=(*record.headers, *ours),
    )


def tombstone(
    request_id: str,
    *,
    topic: str,
    group: str,
    generation: int,
    worker: str,
    status: str,
    partition: int | None = None,
) -> Outgoing:
    """Return the record that says that a request has ended.

    Args:
        generation: of the wait record that it ends, as far as it is known; else 0.
        status: how it ended, for readers of the topic; empty of one that had ended before the
            wait record that goes.
        partition: as for `encode_wait`.
    """
    return Outgoing(
        topic=wait_topic(topic, group),
        partition=partition,
        key=request_id.encode("ascii"),
        value=None,
        headers=(
            (GENERATION, decimal(generation)),
            (HOLDER, utf8(worker)),
            (STATUS, utf8(status)),
        ),
    )


def decode_wait(record: Record, *, group: str) -> WaitRecord | Tombstone:
    """Return the wait that a record of a wait topic describes.

    One that was written by hand or by others may lack all but key and `onceward-expires`: its place
    is taken for that of the request then.

    Raises:
        InvalidMessage: it is none; the reason names the header that is missing or malformed.
    """
    request_id = _request_id(record)
    if record.value is None:
        return Tombstone(request_id, _taking(dict(record.headers)))
    names = [name for name, _ in record.headers]
    if EXPIRES not in names:
        raise InvalidMessage(f"a wait record has no header {EXPIRES}")
    ours_at = len(names) - 1 - names[::-1].index(EXPIRES)
    # The first ORIGINAL_* wins, but for those that we have written ourselves.
    said = {**dict(reversed(record.headers)), **dict(record.headers[ours_at:])}
    topic = source_topic(record.topic, group) or _text(said, ORIGINAL_TOPIC) or record.topic
    return WaitRecord(
        request_id=request_id,
        generation=_number(said, GENERATION, default=1),
        holder=_text(said, HOLDER),
        expires_at=min(_number(said, EXPIRES), MAX_EPOCH_MS),
        record=Record(
            topic=topic,
            partition=_number(said, ORIGINAL_PARTITION, default=record.partition),
            offset=_number(said, ORIGINAL_OFFSET, default=0),
            timestamp_ms=_number(said, ORIGINAL_TIMESTAMP, default=-1),
            key=said.get(ORIGINAL_KEY),
            value=None if NULL_VALUE in said else record.value,
            headers=_sent(record.headers, ours_at),
        ),
        effect=_text(said, EFFECT),
        in_doubt=_text(said, IN_DOUBT),
    )


def _sent(headers: tuple[tuple[str, bytes], ...], ours_at: int) -> tuple[tuple[str, bytes], ...]:
    if any(name == ORIGINAL_TOPIC for name, _ in headers[ours_at:]):
        return headers[:ours_at]
    # By hand, in any order.
    return tuple(one for one in headers if one[0] not in _OURS)


def _request_id(record: Record) -> str:
    if record.key is None:
        raise InvalidMessage("a record of a wait topic has no key")
    return check_request_id(record.key.decode("ascii", "replace"))


def _taking(said: dict[str, bytes]) -> int:
    """Return the taking that a tombstone ends, by its headers; 0 where it ends all."""
    if said.get(STATUS) != b"":
        return 0
    return number_of(said.get(GENERATION), largest=MAX_GENERATION) or 0


def _text(said: dict[str, bytes], name: str) -> str | None:
    raw = said.get(name)
    return None if raw is None else raw.decode("utf-8", "replace")


def _number(said: dict[str, bytes], name: str, *, default: int | None = None) -> int:
    raw = said.get(name)
    if raw is None and default is not None:
        return default
    number = number_of(raw, largest=_LARGEST.get(name, MAX_NUMBER))
    if number is None:
        raise InvalidMessage(f"header {name} of a wait record is not a number that it can have")
    return number
