"""What lies in a topic."""

from typing import Any

from kafka import KafkaConsumer, TopicPartition

from feedback.clock import monotonic_s
from feedback.records.envelope import Record

LIMIT_S = 60.0


def records_of(bootstrap_servers: str, topic: str) -> list[Record]:
    """Return all records that a topic holds now, partition by partition."""
    with KafkaConsumer(bootstrap_servers=bootstrap_servers) as consumer:
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for_topic(topic) or ()]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        found: list[Record] = []
        deadline_s = monotonic_s() + LIMIT_S
        while any(consumer.position(one) < ends[one] for one in partitions):
            assert monotonic_s() < deadline_s, f"{topic} could not be read to its end"
            for batch in consumer.poll(timeout_ms=200).values():
                found += [_record(one) for one in batch]
    return sorted(found, key=lambda one: (one.partition, one.offset))


def _record(found: Any) -> Record:
    return Record(
        topic=found.topic,
        partition=found.partition,
        offset=found.offset,
        timestamp_ms=found.timestamp,
        key=found.key,
        value=found.value,
        headers=tuple(found.headers),
    )
