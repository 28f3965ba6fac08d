"""What stands in topics, and what of a wait topic is unfinished."""

from __future__ import annotations

from kafka import KafkaConsumer, TopicPartition

from consumer.features.waits.wait_record import Tombstone, decode_wait, wait_topic
from feedback.kafka.kafka_python.records import record_of
from feedback.records.envelope import Record
from tests.consumer.stage import Stage
from tests.stack import Servers


def read_all(servers: Servers, topic: str) -> list[Record]:
    """Return everything that stands in a topic."""
    with KafkaConsumer(bootstrap_servers=servers.kafka, enable_auto_commit=False) as consumer:
        places = [TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic) or ()]
        if not places:
            return []  # nobody has made it yet
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        found: list[Record] = []
        while any(consumer.position(one) < ends[one] for one in places):
            for records in consumer.poll(timeout_ms=500).values():
                found += [record_of(one) for one in records]
    return found


def unfinished(servers: Servers, stage: Stage, handler: str) -> set[str]:
    """Return the requests that the wait topic has without a tombstone."""
    found: set[str] = set()
    topic = wait_topic(stage.topics[handler], stage.group)
    by_place = sorted(read_all(servers, topic), key=lambda one: (one.partition, one.offset))
    for record in by_place:
        said = decode_wait(record, group=stage.group)
        if isinstance(said, Tombstone):
            found.discard(said.request_id)
        else:
            found.add(said.request_id)
    return found
