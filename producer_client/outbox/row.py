"""A row of the outbox: a request as it is written there and read again by a relay. Pure."""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

from feedback.records.envelope import FIRST, REOPENS, Envelope, FirstPlace, encode_headers
from feedback.records.stored_payload import StoredPayload
from producer_client.outbox.tables import LANES
from producer_client.submission import Prepared

# Our headers that have no column of their own.
_STORED = frozenset({REOPENS, FIRST})


class WaitingRow(NamedTuple):
    """A row that waits to be sent."""

    id: int
    lane: int
    created_at: int
    request: Prepared

    def __repr__(self) -> str:
        return f"WaitingRow({self.id}, {self.request.request_id})"  # no payload in a log


def lane_of(topic: str, key: bytes | None, request_id: str) -> int:
    """Return the lane of a request, by its topic and key; by its id where there is no key.

    >>> lane_of("payments", b"card-1", "a") == lane_of("payments", b"card-1", "b")
    True
    """
    name = request_id.encode() if key is None else b"%b\0%b" % (topic.encode(), key)
    return zlib.crc32(name) % LANES


class _Unseen(bytes):
    """Payload in a statement: the `echo` of a user's own engine logs the parameters."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


class _UnseenText(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} characters>"


def columns_of(one: Prepared, *, group: str) -> dict[str, Any]:
    """Return the values of a new row; the database adds the others. Their `repr` has no payload."""
    payload = one.payload
    # Headers without a column of their own are stored as they will be sent.
    ours = [pair for pair in encode_headers(one.envelope) if pair[0] in _STORED]
    headers = json.dumps([[name, value.hex()] for name, value in (*payload.headers, *ours)])
    return {
        "group": group,
        "lane": lane_of(payload.topic, payload.key, one.request_id),
        "request_id": one.request_id,
        "topic": payload.topic,
        "message_key": None if payload.key is None else _Unseen(payload.key),
        "value": None if payload.value is None else _Unseen(payload.value),
        "headers": _UnseenText(headers),
        "payload_sha256": one.payload_sha256,
        "size_bytes": len(payload.key or b"") + len(payload.value or b"") + len(headers),
        "attempt": one.envelope.attempt,
        "deadline_at": one.envelope.deadline_at,
    }


# The columns that `row_of` takes, in this order.
READ = (
    "id",
    "lane",
    "created_at",
    "request_id",
    "topic",
    "message_key",
    "value",
    "headers",
    "payload_sha256",
    "attempt",
    "deadline_at",
)


def row_of(found: Any) -> WaitingRow:
    """Return the row of the columns in `READ`."""
    number, lane, created_at, request_id, topic, key, value, headers, digest, attempt, due = found
    read = () if headers == "[]" else json.loads(headers)
    pairs = [(name, bytes.fromhex(raw)) for name, raw in read]
    payload = StoredPayload(
        topic,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        tuple(pair for pair in pairs if pair[0] not in _STORED),
    )
    ours = dict(pair for pair in pairs if pair[0] in _STORED)
    reopens = int(ours[REOPENS]) if REOPENS in ours else None
    first = FirstPlace.read(ours[FIRST].decode()) if FIRST in ours else None
    envelope = Envelope(request_id, attempt, due, reopens, first)
    request = Prepared(envelope, payload, digest, named_by_caller=True)
    return WaitingRow(number, lane, created_at, request)
