"""A topic of a broker in memory: its partitions, and its settings with Kafka's defaults."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Mapping
from types import MappingProxyType

from feedback.kafka.memory.log import MemoryLog
from feedback.kafka.memory.transaction import MemoryTransaction
from feedback.kafka.outgoing import NotAcknowledged, RecordRefused, RecordTooLarge
from feedback.records.envelope import Record

DEFAULTS = MappingProxyType(
    {
        "cleanup.policy": "delete",
        "retention.ms": "604800000",
        "max.message.bytes": "1048588",
        "min.insync.replicas": "1",
    }
)
# Of a batch, around its records.
_AROUND_BYTES = 70


class MemoryTopic:
    """A topic. The broker's lock guards it.

    Args:
        given: the settings that differ from the defaults.

    Attributes:
        topic_id: a new one for each topic that is made.
        logs: one for each partition.
    """

    def __init__(
        self, name: str, *, partitions: int, replicas: int, given: Mapping[str, str]
    ) -> None:
        self.name = name
        self.topic_id = str(uuid.uuid4())
        self.replicas = replicas
        self.settings = {**DEFAULTS, **given}
        self.logs = [MemoryLog() for _ in range(partitions)]

    def append(self, record: Record, transaction: MemoryTransaction | None = None) -> Record:
        """Write a record to its partition; return it with its offset.

        Raises:
            RecordRefused: the topic never takes it.
            NotAcknowledged: fewer replicas are there than have to have it.
        """
        if record.key is None and "compact" in self.settings["cleanup.policy"]:
            raise RecordRefused("Kafka refused the record: InvalidRecordError it has no key")
        self._require_room(record)
        if int(self.settings["min.insync.replicas"]) > self.replicas:
            raise NotAcknowledged("Kafka did not acknowledge: NotEnoughReplicasError")
        log = self.logs[record.partition]
        stored = record._replace(offset=log.end)
        log.append(stored, transaction)
        return stored

    def _require_room(self, record: Record) -> None:
        limit_bytes = int(self.settings["max.message.bytes"])
        parts = [record.key or b"", record.value or b""]
        for name, value in record.headers:
            parts += [name.encode(), value]
        # A batch is compressed, and that counts: most records need no look at it.
        if sum(map(len, parts)) + _AROUND_BYTES <= limit_bytes:
            return
        if len(zlib.compress(b"".join(parts), 1)) + _AROUND_BYTES > limit_bytes:
            raise RecordTooLarge(f"MessageSizeTooLargeError above {limit_bytes} bytes")
