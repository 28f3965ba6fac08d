"""What an engine says when Kafka did not answer or refused: one tree, the same for all engines.

Each error is a sentence for a person, with its fault of security where one is the cause. Nothing of
an engine's library stands in it but text.
"""

from __future__ import annotations

from collections.abc import Collection

from feedback.errors import KafkaUnavailable
from feedback.kafka.values import Partition


class KafkaFault(KafkaUnavailable):
    """Kafka did not answer, or refused.

    Attributes:
        is_passing: the same question may be answered in a moment: a leader or a coordinator is
            being chosen.
        words: of Kafka or the engine, without an address.
        correction: what a person has to do; empty where that is unknown.
    """

    is_passing = False
    words = ""
    correction = ""


class TopicExists(KafkaFault):
    """A topic was to be made that is there already."""


class TopicAbsent(KafkaFault):
    """A broker knows no such topic or partition."""


class TopicRefused(KafkaFault):
    """This user may not do that with a topic."""

    correction = "allow it the topic{operation}"


class GroupRefused(KafkaFault):
    """This user may not do that with a group."""

    correction = "allow it the group, with Read and Describe"


class ClusterRefused(KafkaFault):
    """This user may not do that with the cluster."""

    correction = "allow it the cluster, or make the topics beforehand"


class OffsetGone(KafkaFault):
    """A partition does not have the offset any more, or not yet."""


class PartitionsFailed(KafkaFault):
    """Single partitions cannot be read; the others can.

    Args:
        reason: in a sentence.
        partitions: those that were to be read.
    """

    def __init__(self, reason: str, partitions: Collection[Partition]) -> None:
        super().__init__(reason)
        self.partitions = frozenset(partitions)
