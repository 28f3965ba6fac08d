"""The dead letter of a request that expired. Pure.

`DLQ_WAIT_RECORD` names the wait record of a letter. If a registry dies after sending it, its
successor finds the letter by that behind the mark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from consumer.features.dead_letters.letter import first_failed_at, kept_headers
from consumer.features.waits.registry.wait_rows import NOBODY, ExpiryRow
from consumer.features.waits.wait_record import WaitRecord
from feedback.errors import InvalidMessage
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.scan import KafkaScan, OffsetSpan
from feedback.kafka.values import Partition
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.envelope import (
    Envelope,
    Headers,
    Record,
    decode_headers,
    encode_headers,
)
from feedback.records.failure_headers import (
    DLQ_ATTEMPTS,
    DLQ_CONSUMER_GROUP,
    DLQ_CUT,
    DLQ_EXCEPTION_MESSAGE,
    DLQ_FAILED_AT,
    DLQ_FIRST_FAILED_AT,
    DLQ_REASON,
    DLQ_REQUEST_ID,
    DLQ_STAGE,
    DLQ_WAIT_RECORD,
    ORIGINAL_KEY,
    decimal,
    originals,
    utf8,
)

# Records between two that are wanted: so many are read over sooner than another place is sought.
NEAR = 2000
# The most values in memory at the same time.
MOST_BYTES = 8 * 2**20


class FoundRecords(NamedTuple):
    """The records found at some offsets.

    Args:
        looked_to: those behind it were not looked for; one before it that was not found was taken
            by compaction, or by retention.
    """

    records: dict[int, Record]
    looked_to: int


def records_at(scan: KafkaScan, place: Partition, offsets: Sequence[int]) -> FoundRecords:
    """Return the records that stand at these offsets, as many as fit into `MOST_BYTES`.

    Args:
        offsets: in their order.
    """
    found: dict[int, Record] = {}
    size_bytes, looked_to = 0, -1
    for run in _runs(offsets):
        wanted = set(run)
        for page in scan.pages({place: OffsetSpan(run[0], run[-1] + 1)}):
            for record in page.records:
                if record.offset in wanted:
                    found[record.offset] = record
                    size_bytes += len(record.value or b"")
            if size_bytes >= MOST_BYTES:
                return FoundRecords(found, page.positions[place] - 1)
        looked_to = run[-1]
    return FoundRecords(found, looked_to)


def _runs(offsets: Sequence[int]) -> Iterator[list[int]]:
    """Yield offsets that lie so near that one reading brings them all."""
    run: list[int] = []
    for offset in offsets:
        if run and offset - run[-1] > NEAR:
            yield run
            run = []
        run.append(offset)
    if run:
        yield run


EXPIRED = "EXPIRED"
STAGE = "wait"
KEY_LIMIT_BYTES = 1024
HOLDER_LIMIT_BYTES = 256


def expired_letter(
    wait: WaitRecord, expiry: ExpiryRow, place: Partition, *, group: str, has_key_text: bool = True
) -> Outgoing:
    """Return the letter.

    Args:
        has_key_text: whether ORIGINAL_KEY is there; left out where the topic takes no more.
    """
    limit_bytes = KEY_LIMIT_BYTES if has_key_text else 0
    headers = _headers(wait, expiry, place, group=group, key_limit_bytes=limit_bytes)
    record = wait.record
    topic = dead_letter_topic(record.topic, group)
    return Outgoing(topic, expiry.letter_partition, record.key, record.value, tuple(headers))


def wait_record_name(place: Partition, offset: int) -> str:
    """Return the name of a wait record.

    >>> wait_record_name(("payments.bank.wait", 3), 1234)
    'payments.bank.wait-3-1234'
    """
    return f"{place[0]}-{place[1]}-{offset}"


def named_wait_record(headers: Headers) -> str | None:
    """Return which wait record a letter stands for; None for any other letter."""
    raw = dict(headers).get(DLQ_WAIT_RECORD)
    return None if raw is None else raw.decode("utf-8", "replace")


def _headers(
    wait: WaitRecord, expiry: ExpiryRow, place: Partition, *, group: str, key_limit_bytes: int
) -> list[tuple[str, bytes]]:
    record = wait.record
    ours = encode_headers(_envelope(wait))
    origin = originals(record, key_limit_bytes=key_limit_bytes)
    is_cut = not key_limit_bytes and not any(name == ORIGINAL_KEY for name, _ in origin)
    since = first_failed_at(record.headers, otherwise=expiry.begun_at)
    who = f"worker {expiry.holder} is gone" if expiry.holder != NOBODY else "nobody has it"
    return [
        *kept_headers(record.headers, ours),
        *origin,
        (DLQ_REQUEST_ID, utf8(wait.request_id)),
        (DLQ_REASON, utf8(EXPIRED)),
        (DLQ_STAGE, utf8(STAGE)),
        (DLQ_EXCEPTION_MESSAGE, utf8(f"it has not ended in time, and {who}", HOLDER_LIMIT_BYTES)),
        (DLQ_CONSUMER_GROUP, utf8(group)),
        (DLQ_ATTEMPTS, decimal(expiry.generation)),
        (DLQ_FIRST_FAILED_AT, decimal(since)),
        (DLQ_FAILED_AT, decimal(expiry.begun_at)),
        (DLQ_WAIT_RECORD, utf8(wait_record_name(place, expiry.offset))),
        *([(DLQ_CUT, utf8(ORIGINAL_KEY))] if is_cut and record.key else []),
        *ours,
    ]


def _envelope(wait: WaitRecord) -> Envelope:
    """Return the envelope as it was sent; of a record by hand, or a malformed one, the first."""
    try:
        sent = decode_headers(wait.record)
    except InvalidMessage:
        return Envelope(wait.request_id)
    return Envelope(wait.request_id, sent.attempt, sent.deadline_at)
