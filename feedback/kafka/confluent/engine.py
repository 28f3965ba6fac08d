"""The engine, as one value: librdkafka where it is ready, and kafka-python for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from feedback.kafka.administrator import Administrator
from feedback.kafka.confluent.administrator import ConfluentAdministrator
from feedback.kafka.confluent.member import ConfluentMember
from feedback.kafka.confluent.partition_reader import ConfluentReader
from feedback.kafka.confluent.producer import ConfluentProducer
from feedback.kafka.confluent.records import ReadAnew
from feedback.kafka.engine import Engine
from feedback.kafka.errors import KafkaFault
from feedback.kafka.member import ANSWER_S, GroupMember, PartitionOwner
from feedback.kafka.partition_reader import PartitionReader, ReadingPlan
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

_FETCH_BYTES = 65_536


def confluent(rest: Engine) -> Engine:
    """Return the engine.

    Args:
        rest: the engine for what this one has not.
    """

    def member(settings: KafkaSection, topics: Sequence[str], owner: PartitionOwner) -> GroupMember:
        return ConfluentMember(settings, topics, owner, _read_by(rest, settings, True))

    def reader(settings: KafkaSection, plan: ReadingPlan) -> PartitionReader:
        return ConfluentReader(settings, plan, _read_by(rest, settings, plan.committed_only))

    def administrator(settings: KafkaSection, timeout_s: float) -> Administrator:
        other = partial(rest.administrator, settings, timeout_s)
        return ConfluentAdministrator(settings, timeout_s, other)

    return rest._replace(
        name="confluent",
        member=member,
        reader=reader,
        administrator=administrator,
        producer=ConfluentProducer,
        spacing_s=0.0,
    )


def _read_by(engine: Engine, settings: KafkaSection, committed_only: bool) -> ReadAnew:
    """Return how single records are read by another engine."""

    def read(topic: str, partition: int, offset: int) -> Record:
        reader = engine.reader(
            settings,
            ReadingPlan(
                _FETCH_BYTES, _FETCH_BYTES, connect_s=ANSWER_S, committed_only=committed_only
            ),
        )
        try:
            reader.assign({(topic, partition): offset})
            for found in reader.poll(ANSWER_S, max_records=1):
                if found.offset == offset:
                    return found
        finally:
            reader.close()
        raise KafkaFault(f"Kafka does not give the record {topic}-{partition} at {offset}")

    return read
