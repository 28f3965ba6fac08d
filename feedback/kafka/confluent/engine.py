"""The engine, as one value: librdkafka where it is ready, and kafka-python for the rest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from feedback.kafka.administrator import Administrator
from feedback.kafka.confluent.administrator import ConfluentAdministrator
from feedback.kafka.confluent.anew import RecordsAnew
from feedback.kafka.confluent.connection import require_known
from feedback.kafka.confluent.member import ConfluentMember
from feedback.kafka.confluent.producer import ConfluentProducer
from feedback.kafka.confluent.silent_partitions import PLAN, SilentPartitions
from feedback.kafka.engine import Engine
from feedback.kafka.member import ANSWER_S, GroupMember, PartitionOwner
from feedback.kafka.partition_reader import PartitionReader, ReadingPlan
from feedback.settings.settings import KafkaSection


def confluent(rest: Engine) -> Engine:
    """Return the engine.

    Args:
        rest: the engine for what this one has not.
    """

    def member(settings: KafkaSection, topics: Sequence[str], owner: PartitionOwner) -> GroupMember:
        anew = RecordsAnew(rest, settings)
        silent = SilentPartitions(partial(rest.reader, settings, PLAN))
        connect = partial(rest.administrator, settings, ANSWER_S)
        return ConfluentMember(settings, topics, owner, anew, silent, connect)

    def reader(settings: KafkaSection, plan: ReadingPlan) -> PartitionReader:
        # Its user is told the same of a setting by each command.
        require_known(settings)
        return rest.reader(settings, plan)

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
