"""Finds the record of a failed request: in its topic, else as its client stored it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from consumer.journal.records import Row
from consumer.loop.stored_record import PayloadStore, kept_record
from feedback.errors import RedisUnavailable
from feedback.records.envelope import Record, payload_sha256

READ_TIMEOUT_S = 5.0


class Reader(Protocol):
    """Reads records again by their coordinates."""

    def read(
        self, topic: str, partition: int, offset: int, *, timeout_s: float
    ) -> Record | None: ...
    def close(self) -> None: ...


class Payloads:
    """Finds records of rows. Belongs to one thread.

    Args:
        store: where clients keep payloads.
        redis_away: whether asking Redis would only cost time.
    """

    def __init__(
        self, *, reader: Reader, store: PayloadStore, redis_away: Callable[[], bool]
    ) -> None:
        self._reader = reader
        self._store = store
        self._redis_away = redis_away

    def of(self, row: Row) -> Record | None:
        """Return the record that a row is about; None when it is gone for good.

        Raises:
            RedisUnavailable, KafkaUnavailable: it may be there, and cannot be read now.
        """
        place = row.topic, row.partition, row.offset
        record = self._reader.read(*place, timeout_s=READ_TIMEOUT_S)
        if record is not None and payload_sha256(record.key, record.value) == row.payload_sha256:
            return record
        return self._kept(row)

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        self._reader.close()

    def _kept(self, row: Row) -> Record | None:
        if self._redis_away():
            raise RedisUnavailable("it is away, and may have a payload that Kafka has no longer")
        return kept_record(self._store, row, timestamp_ms=-1)
