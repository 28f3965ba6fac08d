"""A member of a consumer group, as `KafkaSource` needs it from an engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from feedback.kafka.values import BrokersAway, Partition
from feedback.records.envelope import Record

# Less than a session: a member that delays a rebalance longer is removed from the group.
HAND_OVER_S = 3.0
# How long a broker may take for one answer.
ANSWER_S = 10.0


class PartitionOwner(NamedTuple):
    """Hears of partitions that come and go.

    An engine may call it in a thread of its own, while the member polls. Each call returns at once.

    Attributes:
        take: hears of new partitions before any record of them is read; returns those to be paused.
        give_up: hears of partitions that are taken away; returns the offsets from which their next
            owner is to read them, where those are not the committed ones. The engine commits them
            while it still may.
        given_up: hears that these offsets are committed; or, in a word, why they are not.
    """

    take: Callable[[Collection[Partition]], Collection[Partition]]
    give_up: Callable[[Collection[Partition]], Mapping[Partition, int]]
    given_up: Callable[[Mapping[Partition, int], str], None]


class GroupMember(Protocol):
    """Reads topics as a member of a group: committed records, in offset order in each partition.

    It belongs to one thread. Calls for partitions that are not its own any more do nothing.
    """

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records; none if none came in time.

        Raises:
            PartitionsFailed: these cannot be read; the next poll reads the others if the caller
                pauses these.
            KafkaFault: the broker refused.
        """

    def is_coordinated(self) -> bool:
        """Whether a broker coordinates the group, as of the last poll."""

    def is_stable(self) -> bool:
        """Whether the group is stable with this member in it, as of the last poll."""

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made since a monotonic time."""

    def assigned(self) -> frozenset[Partition]:
        """Return the partitions that are this member's now."""

    def paused(self) -> frozenset[Partition]:
        """Return those of its partitions that are paused."""

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these partitions from the next poll on."""

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again, none left out."""

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Read on from these offsets."""

    def position(self, partition: Partition) -> int:
        """Return the next offset to read; -1 where that is not known.

        It is behind records that compaction removed, and behind offsets without a record.

        Raises:
            KafkaFault: the broker refused.
        """

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end, by the last answer of its leader.

        Raises:
            KafkaFault: the broker refused.
        """

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition, and return when that is applied.

        Raises:
            KafkaFault: it was refused, or its outcome is unknown.
        """

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition; 0 where there is none.

        Raises:
            KafkaFault: no broker answered.
        """

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return the partitions of topics, 0 of one that does not exist, without waiting.

        A topic is absent while nothing is known of it.
        """

    def topics(self) -> frozenset[str]:
        """Return the names of all topics.

        Raises:
            KafkaFault: no broker answered.
        """

    def broker_version(self) -> str:
        """Return the newest protocol the broker and the client both speak; empty if not known."""

    def close(self) -> None:
        """Leave the group, so that the others take over at once.

        Raises:
            KafkaFault: the group could not be reached.
        """
