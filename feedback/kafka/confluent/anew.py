"""Reads single records again by another engine: those that confluent-kafka cannot give."""

from __future__ import annotations

from feedback.clock import monotonic_s
from feedback.kafka.engine import Engine
from feedback.kafka.errors import KafkaFault, OffsetGone
from feedback.kafka.member import ANSWER_S
from feedback.kafka.partition_reader import PartitionReader, ReadingPlan
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

_FETCH_BYTES = 65_536


class RecordsAnew:
    """Reads over one connection until it is closed, however many records there are till then.

    A topic may consist of such records. All that are read until `close` have the time of one
    answer, so a poll ends while its member is still one.

    Args:
        engine: the other one.
        settings: brokers and security.
    """

    def __init__(self, engine: Engine, settings: KafkaSection) -> None:
        self._engine = engine
        self._settings = settings
        self._reader: PartitionReader | None = None
        self._at: tuple[Partition, int] | None = None
        self._until_s: float | None = None

    def read(self, topic: str, partition: int, offset: int) -> Record | None:
        """Return a record; None where there is none any more.

        Raises:
            KafkaFault: Kafka did not give it in time.
        """
        if self._until_s is None:
            self._until_s = monotonic_s() + ANSWER_S
        place = (topic, partition)
        try:
            reader = self._connected()
            if self._at != (place, offset):
                reader.assign({place: offset})
            self._at = None
            for found in reader.poll(self._left_s(topic), max_records=1):
                if found.offset != offset:
                    return None
                self._at = (place, offset + 1)
                return found
        except OffsetGone:
            return None
        except KafkaFault:
            self._disconnect()
            raise
        raise KafkaFault(f"Kafka does not give the record {topic}-{partition} at {offset}")

    def close(self) -> None:
        """Close the connection; a later read makes a new one."""
        self._until_s = None
        self._disconnect()

    def _connected(self) -> PartitionReader:
        if self._reader is None:
            plan = ReadingPlan(_FETCH_BYTES, _FETCH_BYTES, connect_s=self._left_s("a topic"))
            self._reader = self._engine.reader(self._settings, plan)
        return self._reader

    def _left_s(self, topic: str) -> float:
        left_s = (self._until_s or 0.0) - monotonic_s()
        if left_s <= 0:
            raise KafkaFault(f"Kafka did not give all records of {topic} again in time")
        return left_s

    def _disconnect(self) -> None:
        reader, self._reader, self._at = self._reader, None, None
        if reader is not None:
            reader.close()
