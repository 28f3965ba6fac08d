"""Finds the payload for a resend.

It is stored in Redis, or else read from Kafka at the coordinates in the status. A record that is
read there is checked, since another one may stand there now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TypeAlias, cast

from redis.exceptions import NoPermissionError

from feedback.clock import monotonic_s
from feedback.errors import InvalidMessage, KafkaUnavailable
from feedback.kafka.reader import RecordReader
from feedback.records.dead_letters import envelope_of_letter
from feedback.records.envelope import Record, decode_headers, payload_sha256
from feedback.records.stored_payload import StoredPayload
from feedback.redis.server import execute, guarded
from feedback.redis.store import StatusStore
from feedback.statuses import Status

# At most so much is in memory at a time, whatever the size of the requests.
GROUP_BYTES = 8 * 2**20
# Reading a deleted record from Kafka takes longest; a batch's lease must outlive it.
READ_S = 2.0


class MissingPayload(StrEnum):
    """Why there is nothing to send: gone for good, or no time left to read it now."""

    GONE = "gone"
    LATER = "later"


# The payload, why there is none, or the outage in which Kafka does not give it.
Found: TypeAlias = StoredPayload | MissingPayload | KafkaUnavailable


class PayloadFinder:
    """Finds payloads. Safe to share between threads.

    Args:
        store: has the stored payloads.
        reader: reads the other ones from Kafka.
    """

    def __init__(self, store: StatusStore, reader: RecordReader) -> None:
        self._store = store
        self._reader = reader

    def groups(self, statuses: Sequence[Status]) -> Iterator[Sequence[Status]]:
        """Yield the statuses in order, cut so that no group's payloads are large together.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            pipe = self._store.redis.pipeline(transaction=False)
            for status in statuses:
                pipe.strlen(self._store.payload_key(status.request_id))
            sizes = cast("list[object]", pipe.execute(raise_on_error=False))
            for one in sizes:
                if isinstance(one, NoPermissionError):
                    raise one
        first, total = 0, 0
        for at, size in enumerate(sizes):
            size_bytes = size if isinstance(size, int) else 0
            if total + size_bytes > GROUP_BYTES and at > first:
                yield statuses[first:at]
                first, total = at, 0
            total += size_bytes
        yield statuses[first:]

    def of(self, statuses: Sequence[Status]) -> list[Found]:
        """Return the payload of each, or why there is none.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            pipe = self._store.redis.pipeline(transaction=False)
            for status in statuses:
                pipe.get(self._store.payload_key(status.request_id))
            kept = execute(pipe)
        deadline_s = monotonic_s() + READ_S
        found: list[Found] = []
        away: KafkaUnavailable | None = None
        for status, raw in zip(statuses, kept, strict=True):
            payload = _decoded(raw, status)
            if payload is not None:
                found.append(payload)
                continue
            one = away or self._from_kafka(status, deadline_s)
            away = one if isinstance(one, KafkaUnavailable) else None
            found.append(one)
        return found

    def _from_kafka(self, status: Status, deadline_s: float) -> Found:
        if status.topic is None or status.partition is None or status.offset is None:
            return MissingPayload.GONE
        left_s = deadline_s - monotonic_s()
        if left_s <= 0:
            return MissingPayload.LATER
        try:
            record = self._reader.read(
                status.topic, status.partition, status.offset, timeout_s=left_s
            )
        except KafkaUnavailable as error:
            return error
        if record is None or not _is_of(record, status):
            return MissingPayload.GONE
        return StoredPayload(record.topic, record.key, record.value, record.headers)


def _decoded(raw: bytes | None, status: Status) -> StoredPayload | None:
    payload = StoredPayload.read(raw)
    if payload is None:
        return None
    is_right = status.payload_sha256 in (None, payload_sha256(payload.key, payload.value))
    return payload if is_right else None


def _is_of(record: Record, status: Status) -> bool:
    """Whether it is the status's record, and not one of a topic that was created anew."""
    try:
        sent, handled = decode_headers(record), envelope_of_letter(record)
    except InvalidMessage:
        return False
    is_same = payload_sha256(record.key, record.value) == status.payload_sha256
    # A dead letter that is given to a handler is a request under another id.
    return is_same and status.request_id in (sent.request_id, handled.request_id)
