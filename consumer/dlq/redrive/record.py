"""The record that is sent back for a letter, to its topic of origin. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import NamedTuple

from consumer.dlq.dialects.letter_headers import without_own
from consumer.dlq.letter import Dialect, Letter
from consumer.features.retries.headers import DUE, GENERATION
from consumer.journal.records import Row
from consumer.journal.redrive.redrive_rule import RedriveCandidate
from consumer.journal.redrive.reopening import replacement_id
from feedback.clock import monotonic_s
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.scan import KafkaScan, OffsetSpan
from feedback.kafka.values import Partition
from feedback.records.envelope import (
    ATTEMPT,
    DEADLINE,
    FIRST,
    GROUP,
    MAX_ATTEMPT,
    REOPENS,
    REQUEST_ID,
    Envelope,
    Headers,
    encode_headers,
    payload_sha256,
)
from feedback.records.failure_headers import (
    DLQ_REDRIVE_BY,
    DLQ_REDRIVE_COUNT,
    DLQ_REDRIVE_ID,
    OF_A_FAILURE,
    decimal,
    utf8,
)
from feedback.records.stored_payload import StoredPayload

REPLACES = "onceward-replaces"
ORIGINAL_REQUEST_ID = "ORIGINAL_REQUEST_ID"
PAYLOAD_MISMATCH = "PAYLOAD_MISMATCH"

# The envelope's headers are written anew; the payload that is stored for a resend lacks them.
_OF_ONCEWARD = OF_A_FAILURE | {
    *(DLQ_REDRIVE_COUNT, DLQ_REDRIVE_ID, DLQ_REDRIVE_BY, REPLACES, DUE, GENERATION),
    *(REQUEST_ID, ATTEMPT, DEADLINE, REOPENS, GROUP, FIRST),
}


class RedriveRecord(NamedTuple):
    """A letter that is sent back.

    Args:
        group: whose letter it is: no other group that reads the topic reopens a failure for it.
        row: the letter's request in the journal; None where it has no row.
        request_id: the letter's request, or its replacement.
        payload_sha256: of the record that is sent.
        partition: None: the key decides, as it does for a client.
        payload: key, value and the user's headers, as a resend needs them.
    """

    letter: Letter
    group: str
    row: Row | None
    request_id: str
    attempt: int
    deadline_at: int
    payload_sha256: str
    partition: int | None
    payload: StoredPayload

    @property
    def reopened(self) -> Row | None:
        """The row that was reopened for it, if there is one."""
        is_same = self.row is not None and self.row.request_id == self.request_id
        return self.row if is_same else None

    @property
    def outgoing(self) -> Outgoing:
        """The record."""
        payload = self.payload
        # Another redrive's record, or a resend, may run first and fail: its client is told so, and
        # may ask for the same under another id.
        reopens = None if self.reopened is None else self.reopened.generation
        envelope = Envelope(self.request_id, self.attempt, self.deadline_at, reopens)
        headers = (*payload.headers, *encode_headers(envelope, group=self.group))
        return Outgoing(payload.topic, self.partition, payload.key, payload.value, headers)


def candidate_of(letter: Letter) -> RedriveCandidate:
    """Return the facts of a letter that the journal needs."""
    failure = letter.failure
    headers = dict(letter.headers)
    is_anothers = failure.code == PAYLOAD_MISMATCH or ORIGINAL_REQUEST_ID in headers
    return RedriveCandidate(
        request_id=letter.request_id,
        generation=failure.attempts if letter.dialect is Dialect.ONCEWARD else None,
        payload_sha256=payload_sha256(letter.key, letter.value),
        redrive_count=failure.redrive_count,
        is_anothers=is_anothers,
        redrive_id=letter.sent_by,
    )


def mark_of(one: RedriveCandidate) -> int:
    """Return a number of a failure; the sum of theirs tells sets of failures apart."""
    return int.from_bytes(sha256(repr((one.request_id, one.generation)).encode()).digest()[:8])


def sending_of(
    letter: Letter,
    row: Row | None,
    *,
    group: str,
    redrive_id: str,
    by: str,
    attempt: int,
    deadline_at: int,
    value: bytes | None = None,
    replaces: bool = False,
    known_sha256: str | None = None,
) -> RedriveRecord:
    """Return the record to send for a letter.

    Args:
        group: the worker's.
        row: of its request, which knows the partition best; None where it has none.
        attempt: the latest known attempt; a replacement begins anew.
        value: the replacement's.
        replaces: whether it is a new request that replaces the letter's.
        known_sha256: the fingerprint of the letter's payload, where it is known.
    """
    topic = letter.home
    request_id = replacement_id(redrive_id, letter.request_id) if replaces else letter.request_id
    sent = value if replaces else letter.value
    headers = [
        *_of_user(letter),
        (DLQ_REDRIVE_COUNT, decimal(letter.failure.redrive_count + 1)),
        (DLQ_REDRIVE_ID, utf8(redrive_id)),
        (DLQ_REDRIVE_BY, utf8(by, 256)),
        *([(REPLACES, utf8(letter.request_id))] if replaces else []),
    ]
    return RedriveRecord(
        letter=letter,
        group=group,
        row=row,
        request_id=request_id,
        attempt=1 if replaces else min(attempt + 1, MAX_ATTEMPT),
        deadline_at=deadline_at,
        payload_sha256=(
            payload_sha256(letter.key, sent) if replaces or not known_sha256 else known_sha256
        ),
        partition=None if letter.key is not None else _partition(letter, row),
        payload=StoredPayload(topic, letter.key, sent, tuple(headers)),
    )


def attempt_of(letter: Letter) -> int:
    """Return the attempt number in the letter; 0 without one."""
    text = dict(letter.record.headers).get(ATTEMPT, b"")
    return int(text) if text.isdigit() and len(text) <= 10 else 0


def sent_by(headers: Headers, redrive_id: str) -> str | None:
    """Return the request that a record was sent for; None for a record not of this redrive."""
    found = dict(headers)
    if found.get(DLQ_REDRIVE_ID) != utf8(redrive_id):
        return None
    return found.get(REPLACES, found.get(REQUEST_ID, b"")).decode("utf-8", "replace")


def sent_count(headers: Headers) -> tuple[str, int] | None:
    """Return the request that a record was sent back for, and how often by then; else None."""
    found = dict(headers)
    count = found.get(DLQ_REDRIVE_COUNT, b"")
    if DLQ_REDRIVE_ID not in found or not (count.isdigit() and len(count) <= 9):
        return None
    name = found.get(REPLACES, found.get(REQUEST_ID, b""))
    return name.decode("utf-8", "replace"), int(count)


def _partition(letter: Letter, row: Row | None) -> int | None:
    """Return the partition of origin, where the letter or the row names one in this topic."""
    if row is not None and row.topic == letter.home:
        return row.partition
    original = letter.failure.original
    return original.partition if original.topic == letter.home else None


def _of_user(letter: Letter) -> list[tuple[str, bytes]]:
    kept = without_own(letter.dialect, letter.headers)
    return [one for one in kept if one[0] not in _OF_ONCEWARD]


# An older mark is as good; there is only more to read behind it after a kill.
REFRESH_S = 5.0


class SentScan:
    """Takes marks, and reads the records behind them. Belongs to one thread.

    Args:
        scan: over a connection of its own; it reads uncommitted records as well.
    """

    def __init__(self, scan: KafkaScan) -> None:
        self._scan = scan
        self._marks: dict[str, tuple[float, dict[Partition, int]]] = {}

    def marks(self, topics: Collection[str]) -> dict[Partition, int]:
        """Return the ends of the topics: records sent from now on stand behind them."""
        now_s = monotonic_s()
        old = [one for one in topics if now_s - self._marked_s(one) > REFRESH_S]
        ends = self._scan.spans(old) if old else {}
        for topic in old:
            found = {place: span.end for place, span in ends.items() if place[0] == topic}
            self._marks[topic] = now_s, found
        return {place: end for topic in topics for place, end in self._marks[topic][1].items()}

    def sent(self, redrive_id: str, marks: Mapping[Partition, int]) -> set[str]:
        """Return the requests of this redrive that stand behind the marks."""
        spans = {
            # A partition that was added since has no mark.
            place: OffsetSpan(max(span.begin, marks.get(place, 0)), span.end)
            for place, span in self._scan.spans({topic for topic, _ in marks}).items()
        }
        found = set()
        for page in self._scan.pages(spans):
            for record in page.records:
                request_id = sent_by(record.headers, redrive_id)
                if request_id is not None:
                    found.add(request_id)
        return found

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        self._scan.close()

    def _marked_s(self, topic: str) -> float:
        return self._marks[topic][0] if topic in self._marks else float("-inf")
