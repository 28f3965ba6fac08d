"""Questions and requests about topics and groups, as callers need them from an engine."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from feedback.kafka.errors import KafkaFault
from feedback.kafka.values import Partition


class TopicDescription(NamedTuple):
    """A topic that exists.

    Attributes:
        topic_id: a new one each time that a topic of this name is created; empty where Kafka has
            none.
        partitions: their numbers.
        replicas: of its first partition.
        rights: of this user, as `READ`; empty where Kafka does not say.
    """

    name: str
    topic_id: str
    partitions: tuple[int, ...]
    replicas: int
    rights: frozenset[str]


class NewTopic(NamedTuple):
    """A topic to be made; what is None is the broker's default."""

    partitions: int | None = None
    replicas: int | None = None
    configs: Mapping[str, str] = {}


class OffsetMark(Enum):
    """A place in each partition that has an offset."""

    BEGIN = "the first record that it still has"
    END = "behind its last record, open transactions included"
    COMMITTED_END = "before which all transactions have ended"


class Administrator(Protocol):
    """Asks about topics and groups, makes and deletes them; connected. Belongs to one thread.

    Every call may raise `KafkaFault`.
    """

    def cluster_id(self) -> str:
        """Return the id of the cluster; empty where it has none."""

    def topics(self) -> frozenset[str]:
        """Return the names of all topics that this user may see."""

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaFault]:
        """Return the description of each topic, or why Kafka does not give it."""

    def configs(self, topics: Collection[str], names: Collection[str]) -> dict[str, dict[str, str]]:
        """Return settings of topics, defaults included; what this user may not read is absent."""

    def make(
        self, topics: Mapping[str, NewTopic], *, only_rehearse: bool = False
    ) -> dict[str, KafkaFault]:
        """Make topics; return the refusals when brokers know the others."""

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics."""

    def groups(self) -> frozenset[str]:
        """Return the names of all groups that this user may see."""

    def delete_groups(self, names: Collection[str]) -> None:
        """Delete groups without members."""

    def remove_member(self, group: str, member_id: str) -> None:
        """Remove a member of a group, as if it had left; nothing, where it is no member."""

    def offsets(self, partitions: Collection[Partition], mark: OffsetMark) -> dict[Partition, int]:
        """Return the offset of each partition at a mark."""

    def offsets_at(self, partitions: Collection[Partition], epoch_ms: int) -> dict[Partition, int]:
        """Return the offset of the first record that is not before a time; -1: none is."""

    def group_offsets(
        self, asked: Mapping[str, Collection[Partition] | None]
    ) -> dict[Partition, int]:
        """Return the offsets that groups have committed; a partition without one is absent.

        Args:
            asked: the partitions of each group; None: all of topics that this user may see.
        """

    def close(self) -> None:
        """Close the connection."""
