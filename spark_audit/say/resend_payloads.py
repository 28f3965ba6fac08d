"""Payloads of requests that are to be sent again: from Redis, else from Kafka by coordinates."""

from __future__ import annotations

from types import TracebackType

from feedback.errors import RedisUnavailable
from feedback.kafka.reader import RecordReader
from feedback.records.envelope import payload_sha256
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.status import FINAL
from spark_audit.say.resend_lines import Payload

TIMEOUT_S = 10.0


class PayloadReader:
    """Reads payloads one by one; nothing is asked before the first.

    Args:
        settings: where Redis and Kafka are.
    """

    def __init__(self, settings: Settings) -> None:
        self._store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
        self._records = RecordReader(settings.kafka)

    def __enter__(self) -> PayloadReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._store.close()
        self._records.close()

    def is_begun(self, request_id: str) -> bool:
        """Return whether a worker has told that it began a request, or how it ended.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        status = self._store.read(request_id)
        return status.generation > 0 or status.state in FINAL

    def read(
        self, request_id: str, topic: str, partition: int, offset: int, digest: str | None
    ) -> Payload | None:
        """Return key, value and headers; None when they are gone.

        A topic that was made anew has another's record at the same offset: under this id it would
        be a new request, and run a second time.

        Args:
            digest: `payload_sha256` of the record that was judged; another payload is not its own.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        try:
            kept = self._store.kept_payload(request_id)
        except RedisUnavailable:
            kept = None  # Kafka has it
        if kept is not None and payload_sha256(kept.key, kept.value) == digest:
            return kept.key, kept.value, kept.headers
        record = self._records.read(topic, partition, offset, timeout_s=TIMEOUT_S)
        if record is None or payload_sha256(record.key, record.value) != digest:
            return None
        return record.key, record.value, record.headers
