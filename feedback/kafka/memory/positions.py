"""The partitions that a member in memory has, and how far it has read each."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from feedback.kafka.errors import PartitionsFailed, TopicAbsent, TopicRefused
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.values import Partition
from feedback.records.envelope import Record

READ = "Read"


class MemoryPositions:
    """Reads partitions, from the next offset of each. Belongs to the thread of its member.

    Args:
        broker: has them.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._next: dict[Partition, int] = {}
        self._ends: dict[Partition, int] = {}
        self._paused: set[Partition] = set()
        self._turn = 0

    @property
    def owned(self) -> frozenset[Partition]:
        """The partitions that the member has."""
        return frozenset(self._next)

    @property
    def paused(self) -> frozenset[Partition]:
        """Those that are not read."""
        return frozenset(self._paused)

    def take(self, offsets: Mapping[Partition, int]) -> None:
        """Read these from now on, from these offsets."""
        self._next |= offsets

    def drop(self, partitions: Collection[Partition]) -> None:
        """Forget these."""
        for one in partitions:
            self._next.pop(one, None)
            self._ends.pop(one, None)
            self._paused.discard(one)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Do not read those of these that the member has."""
        self._paused.update(self._next.keys() & {*partitions})

    def resume(self, partitions: Collection[Partition]) -> None:
        """Read these again."""
        self._paused.difference_update([*partitions])

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Read on from these offsets, where the member has the partitions."""
        self._next |= {one: at for one, at in offsets.items() if one in self._next}

    def of(self, partition: Partition) -> int:
        """Return the next offset to read; -1 of a partition that the member does not have."""
        return self._next.get(partition, -1)

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end."""
        end = self._ends.get(partition)
        return end is not None and self._next[partition] >= end

    def fetched(self, most: int) -> list[Record]:
        """Return records of one partition after the other; for callers with the broker's lock.

        Raises:
            PartitionsFailed: the user may not read some, and the others have no records now.
        """
        wanted = sorted(self._next.keys() - self._paused)
        self._turn += 1
        begin = self._turn % len(wanted) if wanted else 0
        found: list[Record] = []
        refused: dict[Partition, TopicRefused] = {}
        for one in wanted[begin:] + wanted[:begin]:
            try:
                log = self._broker.log(one, READ)
            except TopicAbsent:
                continue  # it was deleted, and the group will say so
            except TopicRefused as error:
                refused[one] = error
                continue
            if not log.begin <= self._next[one] <= log.end:
                self._next[one] = log.begin
            records, self._next[one] = log.read(
                self._next[one], most=0 if refused else most - len(found), committed_only=True
            )
            self._ends[one] = log.end
            found += records
        if refused and not found:
            why = next(iter(refused.values()))
            raise PartitionsFailed(str(why), refused).because(why.fault)
        return found
