"""The record of a request as its client has kept it for resends, where the journal's row fits."""

from __future__ import annotations

from typing import Protocol

from consumer.journal.records import Row
from feedback.records.envelope import Record, payload_sha256
from feedback.records.stored_payload import StoredPayload


class PayloadStore(Protocol):
    """Where clients keep payloads for resends."""

    def kept_payload(self, request_id: str) -> StoredPayload | None: ...


def kept_record(store: PayloadStore, row: Row, *, timestamp_ms: int) -> Record | None:
    """Return the record of a row from the payload that its client stored; None when there is none.

    Args:
        timestamp_ms: its time, which is not kept; -1 for none.

    Raises:
        RedisUnavailable: it may be there, and cannot be read now.
    """
    kept = store.kept_payload(row.request_id)
    if kept is None or payload_sha256(kept.key, kept.value) != row.payload_sha256:
        return None
    place = row.topic, row.partition, row.offset
    return Record(*place, timestamp_ms, kept.key, kept.value, kept.headers)
