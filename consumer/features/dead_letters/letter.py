"""The record of a dead letter. Pure.

Key, value and headers are those of the record. The added headers say which request it was, where it
came from and why it failed. Their texts are cut step by step where the topic takes no more, the
least needed first.
"""

from __future__ import annotations

from typing import NamedTuple

from consumer.journal.records import Row
from consumer.journal.redrive.redrive_rule import shown_generation
from consumer.journal.waiting import OwedRow
from consumer.pool.outcome import STACK_LIMIT_BYTES, RaisedError
from feedback.records.dead_letter_topics import dead_letter_topic as dead_letter_topic
from feedback.records.envelope import (
    ATTEMPT,
    DEADLINE,
    FIRST,
    REQUEST_ID,
    Envelope,
    Headers,
    Record,
    encode_headers,
)
from feedback.records.failure_headers import (
    DLQ_ATTEMPTS,
    DLQ_CONSUMER_GROUP,
    DLQ_CUT,
    DLQ_EXCEPTION_CLASS,
    DLQ_EXCEPTION_MESSAGE,
    DLQ_FAILED_AT,
    DLQ_FIRST_FAILED_AT,
    DLQ_REASON,
    DLQ_REQUEST_ID,
    DLQ_STACKTRACE,
    DLQ_STAGE,
    ORIGINAL_KEY,
    decimal,
    originals,
    utf8,
    without_failure,
)

# The most bytes that a letter adds to its record, for any names and texts.
ROOM_BYTES = 32_768
CLASS_LIMIT_BYTES = 256
REASON_LIMIT_BYTES = 256
INVALID_MESSAGE = "INVALID_MESSAGE"
# A client's header of ours that the letter says otherwise: a malformed one, or another's id.
_AS_SENT = {
    REQUEST_ID: "ORIGINAL_REQUEST_ID",
    ATTEMPT: "ORIGINAL_ATTEMPT",
    DEADLINE: "ORIGINAL_DEADLINE",
}


class TextLimits(NamedTuple):
    """How long the texts of a letter may be; 0 leaves one out."""

    stack_bytes: int
    message_bytes: int
    key_bytes: int


# Tried one after the other, until the topic takes the letter.
TRIMS = (
    TextLimits(STACK_LIMIT_BYTES, 2048, 1024),
    TextLimits(1024, 512, 128),
    TextLimits(0, 128, 0),
    TextLimits(0, 0, 0),
)


def letter_headers(
    dead: OwedRow,
    record: Record,
    *,
    group: str,
    raised: RaisedError | None,
    trim: TextLimits = TRIMS[0],
) -> Headers:
    """Return the headers of a letter.

    Args:
        record: the record that failed, at the place that the journal names.
    """
    row = dead.row
    envelope = Envelope(row.request_id, row.attempt, row.deadline_at)
    ours = encode_headers(envelope)
    texts = _texts(record, row, raised, trim)
    cut = _cut(texts, _texts(record, row, raised, TRIMS[0]))
    return [
        *kept_headers(record.headers, ours),
        *[one for one in texts if one[0] == ORIGINAL_KEY],
        *originals(record, key_limit_bytes=0),
        *_facts(dead, record, group),
        *[one for one in texts if one[0] != ORIGINAL_KEY],
        *([(DLQ_CUT, utf8(",".join(cut)))] if cut else []),
        *ours,
    ]


def kept_headers(headers: Headers, ours: Headers) -> list[tuple[str, bytes]]:
    """Return the record's own headers; those that ours replace by another name, as they were.

    Args:
        headers: of the record that failed.
        ours: id, attempt and deadline, as the letter says them.
    """
    new = dict(ours)
    counts: dict[str, int] = {}
    for name, _ in headers:
        counts[name] = counts.get(name, 0) + 1
    kept = []
    for name, value in without_failure(headers):
        if name == FIRST:
            continue  # a place in the topic of the record: the letter repeats none
        if name not in _AS_SENT:
            kept.append((name, value))
        elif counts[name] > 1 or new.get(name) != value:
            kept.append((_AS_SENT[name], value))
    return kept


def _facts(dead: OwedRow, record: Record, group: str) -> list[tuple[str, bytes]]:
    row = dead.row
    failed_at = row.finished_at or 0
    otherwise = failed_at if dead.first_failed_at is None else dead.first_failed_at
    return [
        (DLQ_REQUEST_ID, utf8(row.request_id)),
        (DLQ_REASON, utf8(row.code or row.state, REASON_LIMIT_BYTES)),
        (DLQ_STAGE, utf8(stage(row))),
        (DLQ_CONSUMER_GROUP, utf8(group)),
        (DLQ_ATTEMPTS, decimal(shown_generation(row))),
        (DLQ_FIRST_FAILED_AT, decimal(first_failed_at(record.headers, otherwise=otherwise))),
        (DLQ_FAILED_AT, decimal(failed_at)),
    ]


def first_failed_at(headers: Headers, *, otherwise: int) -> int:
    """Return when a record failed first, in epoch ms: it may have been set aside before."""
    found = _number(dict(headers).get(DLQ_FIRST_FAILED_AT))
    return otherwise if found is None else found


def stage(row: Row) -> str:
    """Return how far the request came: `receive`, `claim` or `run`."""
    if row.claimed_at is not None:
        return "run"
    return "receive" if row.code == INVALID_MESSAGE else "claim"


def _texts(
    record: Record, row: Row, raised: RaisedError | None, trim: TextLimits
) -> list[tuple[str, bytes]]:
    origin = originals(record, key_limit_bytes=trim.key_bytes)
    texts = [one for one in origin if one[0] == ORIGINAL_KEY]
    if raised is not None:
        texts.append((DLQ_EXCEPTION_CLASS, utf8(raised.error_class, CLASS_LIMIT_BYTES)))
    if row.message and trim.message_bytes:
        texts.append((DLQ_EXCEPTION_MESSAGE, utf8(row.message, trim.message_bytes)))
    if raised is not None and raised.stack and trim.stack_bytes:
        # The end of a stack names the error, and its place.
        texts.append((DLQ_STACKTRACE, utf8(raised.stack, trim.stack_bytes, keep_end=True)))
    return texts


def _cut(texts: Headers, whole: Headers) -> list[str]:
    left = dict(texts)
    return [name for name, value in whole if left.get(name) != value]


def _number(raw: bytes | None) -> int | None:
    # Anybody may have written it.
    if raw is None or not raw.isdigit() or len(raw) > 15:
        return None
    return int(raw)
