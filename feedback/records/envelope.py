"""A record's headers beside the user's bytes: id, attempt, deadline, first place, trace context.

The wire format: docs: Kafka records. Headers are UTF-8 text, numbers in decimal. The user's key
and value are never touched; `payload_sha256` distinguishes two payloads.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from feedback.errors import InvalidMessage

# The prefix of our headers; users' headers do not begin with it.
RESERVED = "onceward-"
REQUEST_ID = "onceward-request-id"
ATTEMPT = "onceward-attempt"
DEADLINE = "onceward-deadline"
# The highest generation whose failure a resend may reopen; its sender has read that failure.
REOPENS = "onceward-reopens"
# Of a resend: the group whose failure it may reopen. Other groups that read the topic reopen none.
GROUP = "onceward-group"
# Of a resend: the place of the record that it repeats. Pruning judges the resend by that.
FIRST = "onceward-first"
TRACEPARENT = "traceparent"
# The id of an outcome's record: a worker that reads the record runs it as a request of its own.
OUTCOME_ID = "onceward-outcome-id"

Headers = Sequence[tuple[str, bytes]]

MAX_REQUEST_ID_LENGTH = 128
MAX_ATTEMPT = 2**31 - 1
# 9999-12-31: beyond it neither a database timestamp nor a person can read the time.
MAX_EPOCH_MS = 253_402_300_799_999

_PRINTABLE_ID = re.compile(r"[!-~]{1,128}\Z")
# Eleven digits would overflow MAX_ATTEMPT anyway, and int() of hostile text costs time.
_DECIMAL = re.compile(r"[0-9]{1,15}\Z")
_FIRST_PLACE = re.compile(r"([^/]+)/([0-9]{1,10})/([0-9]{1,19})(?:/(-1|[0-9]{1,19}))?\Z", re.ASCII)


class NullHeader(bytes):
    """The value of a header that is null in Kafka.

    Its bytes are empty; `feedback.kafka.kafka_python.records` writes it as null again.
    """


NULL_HEADER = NullHeader()


class Record(NamedTuple):
    """One Kafka record as it was read, with nothing interpreted.

    A named tuple costs a third of a frozen dataclass, and every request makes one.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    def __repr__(self) -> str:
        return f"Record({self.topic}-{self.partition}-{self.offset})"  # no payload in a log

    @property
    def coordinates_id(self) -> str:
        """The id of a record without an id, and of every refused one (docs: Kafka records)."""
        return _bounded(f"{self.topic}-{self.partition}-{self.offset}-{self.timestamp_ms}")


class FirstPlace(NamedTuple):
    """The place of the first record that a resend repeats.

    Attributes:
        sent_at: of a record that names no deadline: epoch ms of its own time, -1 without one. Such
            a record gets a new deadline with each reading, and its resend names that one. None:
            the record names the deadline of the resend.
    """

    topic: str
    partition: int
    offset: int
    sent_at: int | None = None

    @property
    def text(self) -> str:
        """The place as headers and statuses have it.

        >>> FirstPlace("pay", 3, 17).text, FirstPlace("pay", 3, 17, -1).text
        ('pay/3/17', 'pay/3/17/-1')
        """
        place = f"{self.topic}/{self.partition}/{self.offset}"
        return place if self.sent_at is None else f"{place}/{self.sent_at}"

    @classmethod
    def read(cls, text: str) -> FirstPlace | None:
        """Return the place of its text; None for a text that is none, as of a later version.

        >>> FirstPlace.read("pay/3/17/-1")
        FirstPlace(topic='pay', partition=3, offset=17, sent_at=-1)
        >>> FirstPlace.read("pay/3")
        """
        found = _FIRST_PLACE.match(text)
        if found is None:
            return None
        topic, partition, offset, sent_at = found.groups()
        return cls(topic, int(partition), int(offset), None if sent_at is None else int(sent_at))


class Envelope(NamedTuple):
    """One sending of a request, as its headers describe it.

    Attributes:
        request_id: 1 to 128 printable ASCII characters.
        attempt: 1 is the first sending, each resend adds 1.
        deadline_at: epoch ms after which no claim is granted; None when the sender set none.
        reopens: the highest generation whose failure this sending may reopen. An automatic resend
            names only a failure that its client had read before it asked again. None: any, as in
            a record of a sender that does not know this header; 0 where it is meant for another
            group than the reader's.
        first: the place of the first record that this sending repeats, as far as its sender knew.
            None: it names none, as a first sending or a sender that does not know this header.
    """

    request_id: str
    attempt: int = 1
    deadline_at: int | None = None
    reopens: int | None = None
    first: FirstPlace | None = None


def new_request_id() -> str:
    """Return a UUIDv7 (RFC 9562): sortable by time, unique without coordination."""
    ms = time.time_ns() // 1_000_000
    bits = (ms & (2**48 - 1)) << 80 | int.from_bytes(os.urandom(10), "big")
    bits = bits & ~(0xF << 76) | 0x7 << 76
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def check_request_id(request_id: str) -> str:
    """Return the id unchanged when it is valid.

    Raises:
        InvalidMessage: it is not 1 to 128 printable ASCII characters without spaces.
    """
    if not _PRINTABLE_ID.match(request_id):
        raise InvalidMessage(
            f"request id of {len(request_id)} characters: "
            "1 to 128 printable ASCII characters without spaces are allowed"
        )
    return request_id


def outcome_id(request_id: str, generation: int) -> str:
    """Return the id of the record of this generation's outcome."""
    return _bounded(f"{request_id}.outcome.{generation}")


def payload_sha256(key: bytes | None, value: bytes | None) -> str:
    """Return the hex digest that distinguishes payloads.

    Key and value are each preceded by their length as a signed 64-bit big-endian number, -1 for
    null: so null is not empty, and bytes cannot move from key to value (docs: The guarantee).
    """
    digest = hashlib.sha256()
    for part in (key, value):
        digest.update(struct.pack(">q", -1 if part is None else len(part)))
        if part:
            digest.update(part)
    return digest.hexdigest()


def encode_headers(
    envelope: Envelope, user_headers: Headers = (), *, group: str | None = None
) -> list[tuple[str, bytes]]:
    """Return the headers to send: the user's in their order, then ours.

    Headers of ours among the user's are dropped: the envelope's values count.

    Args:
        group: the group that a resend is meant for. None: for a record that reaches one group only.
    """
    headers = [(name, value) for name, value in user_headers if name not in OURS]
    headers.append((REQUEST_ID, envelope.request_id.encode("ascii")))
    headers.append((ATTEMPT, b"%d" % envelope.attempt))
    if envelope.deadline_at is not None:
        headers.append((DEADLINE, b"%d" % envelope.deadline_at))
    if envelope.reopens is not None:
        headers.append((REOPENS, b"%d" % envelope.reopens))
    if group is not None and envelope.attempt > 1:
        headers.append((GROUP, group.encode()))
    if envelope.first is not None:
        headers.append((FIRST, envelope.first.text.encode()))
    return headers


def decode_headers(record: Record, *, group: str | None = None) -> Envelope:
    """Return the envelope of a record; a record without an id is named by its coordinates.

    The record of an outcome is a request of its own, under the outcome's id. When that request is
    sent again it carries an attempt, and the header of the outcome is then left to the user.

    Args:
        group: the reader's, if it may reopen a failure. Each group has its own failures of a
            request, and its own callers, who may have asked anew: a resend for another group
            reopens none.

    Raises:
        InvalidMessage: a header of ours is repeated, not UTF-8, or breaks section 7.
    """
    is_sent_by_id = any(name == ATTEMPT for name, _ in record.headers)
    found = _ours_once(record.headers, _READ if is_sent_by_id else _READ | {OUTCOME_ID})
    is_outcome = OUTCOME_ID in found
    request_id = found.get(OUTCOME_ID if is_outcome else REQUEST_ID)
    reopens = _number(found, REOPENS, low=0, high=MAX_ATTEMPT, default=None)
    return Envelope(
        request_id=record.coordinates_id if request_id is None else check_request_id(request_id),
        attempt=_number(found, ATTEMPT, low=1, high=MAX_ATTEMPT, default=1) or 1,
        deadline_at=_number(found, DEADLINE, low=0, high=MAX_EPOCH_MS, default=None),
        reopens=0 if group is not None and found.get(GROUP, group) != group else reopens,
        first=_first_place(record),
    )


_READ = frozenset({REQUEST_ID, ATTEMPT, DEADLINE, REOPENS, GROUP})
OURS = _READ | {FIRST}


def _bounded(text: str) -> str:
    """Return the text as an id, or its hash where it is too long."""
    if len(text) <= MAX_REQUEST_ID_LENGTH:
        return text
    return "sha256-" + hashlib.sha256(text.encode()).hexdigest()


def _ours_once(headers: Iterable[tuple[str, bytes]], read: frozenset[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, raw in headers:
        if name not in read:
            continue
        if name in found:
            raise InvalidMessage(f"header {name} is repeated")
        try:
            found[name] = raw.decode("utf-8")
        except (UnicodeDecodeError, AttributeError):
            raise InvalidMessage(f"header {name} is not UTF-8 text") from None
    return found


def _first_place(record: Record) -> FirstPlace | None:
    """Return the place that a record says it repeats.

    No word of a client's: one that cannot be read, or is of a topic that this was copied from, says
    nothing.
    """
    found = [raw or b"" for name, raw in record.headers if name == FIRST]
    place = FirstPlace.read(found[0].decode(errors="replace")) if len(found) == 1 else None
    return place if place is not None and place.topic == record.topic else None


def _number(
    found: dict[str, str], name: str, *, low: int, high: int, default: int | None
) -> int | None:
    text = found.get(name)
    if text is None:
        return default
    if not _DECIMAL.match(text) or not low <= int(text) <= high:
        raise InvalidMessage(f"header {name} is not a decimal number from {low} to {high}")
    return int(text)
