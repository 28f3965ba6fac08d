"""Writes records as the only owner of a name: an earlier owner can write no more.

This makes one writer of several processes. Any of them may be paused or cut off for any time, with
a record under way all the time. A lease alone does not suffice: a process may stand still between
looking at a clock and sending, for any time.

How it works: a transactional id has an epoch, and each taking raises it. An empty, committed
transaction puts a marker with the new epoch into each partition to write to. From that marker on
its broker refuses batches of an older epoch. Taking returns when the markers are there: so a record
of an earlier owner stands before the partition's end, or never will. The records themselves belong
to no transaction: any reader sees them, and none can be taken back.

The cost: a tenth of a second for each taking, one offset of each partition for its marker, and the
right to write under the name (ACL: Write on the TransactionalId). After some 32,000 takings a name
gets another producer id; at that one taking, only time excludes an earlier owner.

Retries write nothing twice: after an unknown outcome there is no retry. The owner has to take the
name anew and read the partition. See KIP-98 and KIP-360.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from kafka.errors import (
    InvalidRecordError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    for_code,
)
from kafka.protocol.producer import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable
from feedback.kafka.fencing import Fenced
from feedback.kafka.kafka_python.epoch import FENCED, Producer, TransactionalId
from feedback.kafka.kafka_python.faults import fault_of
from feedback.kafka.kafka_python.wire import KafkaWire
from feedback.kafka.outgoing import Outgoing, RecordRefused, RecordTooLarge
from feedback.kafka.values import Partition
from feedback.settings.settings import KafkaSection

BATCH_BYTES = 256 * 1024

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_REFUSED = (InvalidRecordError, PolicyViolationError)


class KafkaPythonFence:
    """The right to write under a name. Belongs to one thread.

    Args:
        wire: asks the brokers.
        name: the transactional id; it may have one writer only.
    """

    def __init__(self, wire: KafkaWire, name: str) -> None:
        self._wire = wire
        self._transactional_id = TransactionalId(wire, name)
        self._producer: Producer | None = None
        self._sequences: dict[Partition, int] = {}

    @property
    def is_held(self) -> bool:
        """Whether the right to write is held, as far as this process knows."""
        return self._producer is not None

    def take(self, places: Collection[Partition]) -> None:
        """Exclude all other writers from these partitions; return when they are excluded.

        Raises:
            Fenced: another process takes the name at the same time.
            KafkaUnavailable: Kafka is away, or refuses; an earlier owner may still write.
        """
        self._producer = None
        self._producer = self._transactional_id.take(places)
        self._sequences = dict.fromkeys(places, 0)

    def write(
        self,
        topic: str,
        partition: int,
        records: Sequence[Outgoing],
        *,
        before_each: Callable[[], None],
    ) -> list[RecordRefused | None]:
        """Write records in their order; None for each that Kafka has, else the refusal.

        Args:
            partition: one that was taken; the records' own are ignored.
            before_each: called right before each request; an error of it ends the writing.

        Raises:
            Fenced: another has taken the name; records that were not acknowledged were not written.
            KafkaUnavailable: the outcome of some is unknown: take the name, and read the partition.
        """
        answers: list[RecordRefused | None] = []
        for batch in _batches(records):
            answers += self._write(topic, partition, batch, before_each)
        return answers

    def _write(
        self,
        topic: str,
        partition: int,
        batch: Sequence[Outgoing],
        before_each: Callable[[], None],
    ) -> list[RecordRefused | None]:
        try:
            self._send(topic, partition, batch, before_each)
        except RecordRefused as refused:
            if len(batch) == 1:
                return [refused]
        else:
            return [None] * len(batch)
        middle = len(batch) // 2
        return [
            *self._write(topic, partition, batch[:middle], before_each),
            *self._write(topic, partition, batch[middle:], before_each),
        ]

    def _send(
        self,
        topic: str,
        partition: int,
        batch: Sequence[Outgoing],
        before_each: Callable[[], None],
    ) -> None:
        producer, place = self._producer, (topic, partition)
        if producer is None or place not in self._sequences:
            raise Fenced(f"the right to write to {topic}-{partition} is not held")
        node_id = self._wire.leader(topic, partition)
        request = self._request(place, _encoded(batch, producer, self._sequences[place]))
        before_each()
        # Until the answer the right is in doubt; only an answer gives it back.
        self._producer = None
        answer = self._wire.ask(node_id, request)
        (of_topic,) = answer.responses
        (found,) = of_topic.partition_responses
        error = for_code(found.error_code)
        reason = f"{topic}-{partition}: {error.__name__} {found.error_message or ''}".strip()
        if not found.error_code:
            self._producer = producer
            self._sequences[place] += len(batch)
            return
        if issubclass(error, FENCED):
            raise Fenced(f"Kafka has another writer for {reason}")
        if issubclass(error, _TOO_LARGE + _REFUSED):
            self._producer = producer
            kind = RecordTooLarge if issubclass(error, _TOO_LARGE) else RecordRefused
            raise kind(f"Kafka refused the record: {reason}")
        self._wire.close()
        why = fault_of(error(topic), operation="Write")
        said = reason if why is None else why.said
        raise KafkaUnavailable(f"Kafka did not acknowledge: {said}").because(why)

    def _request(self, place: Partition, records: bytearray) -> Any:
        of_topic = ProduceRequest.TopicProduceData
        data = of_topic.PartitionProduceData(index=place[1], records=records)
        return ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=int(self._wire.timeout_s * 1000),
            topic_data=[of_topic(name=place[0], partition_data=[data])],
            min_version=3,
            max_version=9,
        )


class KafkaPythonFences:
    """See `feedback.kafka.fencing.Fences`.

    Args:
        settings: brokers and security.
    """

    def __init__(self, settings: KafkaSection) -> None:
        self._wire = KafkaWire(settings)

    def fence(self, name: str) -> KafkaPythonFence:
        """Return the fence of a name."""
        return KafkaPythonFence(self._wire, name)

    def end(self, topic: str, partition: int) -> int:
        """Return the offset behind a partition's last record."""
        return self._wire.end(topic, partition)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def _batches(records: Sequence[Outgoing]) -> list[list[Outgoing]]:
    batches: list[list[Outgoing]] = []
    left_bytes = 0
    for one in records:
        size_bytes = one.size_bytes
        if not batches or size_bytes > left_bytes:
            batches.append([])
            left_bytes = BATCH_BYTES
        batches[-1].append(one)
        left_bytes -= size_bytes
    return batches


def _encoded(batch: Sequence[Outgoing], producer: Producer, sequence: int) -> bytearray:
    builder = MemoryRecordsBuilder(
        2,
        DefaultRecordBatchBuilder.CODEC_GZIP,
        2**31 - 1,
        producer_id=producer.number,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
    )
    now = epoch_ms()
    for one in batch:
        builder.append(timestamp=now, key=one.key, value=one.value, headers=list(one.headers))
    builder.close()
    records: bytearray = builder.buffer()
    return records
