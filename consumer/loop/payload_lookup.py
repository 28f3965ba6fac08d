"""Finds the payload of a dead worker's request: in Redis, else in Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery
from consumer.journal import Row
from consumer.loop.stored_record import kept_record
from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable
from feedback.kafka.reader import read_record
from feedback.records.envelope import Envelope, Record, payload_sha256
from feedback.redis.store import StatusStore
from feedback.settings.settings import KafkaSection

READ_TIMEOUT_S = 5.0


class PayloadLookup:
    """Makes deliveries of journal rows again.

    Args:
        store: where clients keep payloads for resends.
        kafka: where the records are, of clients that keep none.
        handlers: by topic.
        redis_away: whether asking Redis would only cost time.
    """

    def __init__(
        self,
        *,
        store: StatusStore,
        kafka: KafkaSection,
        handlers: Mapping[str, Handler],
        redis_away: Callable[[], bool],
    ) -> None:
        self._store = store
        self._kafka = kafka
        self._handlers = handlers
        self._redis_away = redis_away

    def of(self, row: Row) -> Delivery | None:
        """Return the row's delivery; None when its payload is gone for good.

        Raises:
            RedisUnavailable, KafkaUnavailable: it may be there, and cannot be read now.
        """
        record = self._record(row)
        if record is None:
            return None
        return Delivery(
            record=record,
            envelope=Envelope(row.request_id, row.attempt, row.deadline_at),
            handler=self._handlers[row.topic],
            payload_sha256=row.payload_sha256,
            deadline_at=row.deadline_at,
            buffered_s=monotonic_s(),
        )

    def _record(self, row: Row) -> Record | None:
        try:
            return self._kept(row) or self._sent(row)
        except RedisUnavailable:
            record = self._sent(row)
            if record is None:
                raise  # Redis may have it when Kafka has it no longer
            return record

    def _kept(self, row: Row) -> Record | None:
        if self._redis_away():
            raise RedisUnavailable("it is away")
        return kept_record(self._store, row, timestamp_ms=row.claimed_at or -1)

    def _sent(self, row: Row) -> Record | None:
        record = read_record(
            self._kafka, row.topic, row.partition, row.offset, timeout_s=READ_TIMEOUT_S
        )
        if record is None or payload_sha256(record.key, record.value) != row.payload_sha256:
            return None
        return record
