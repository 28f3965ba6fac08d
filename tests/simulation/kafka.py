"""Kafka as this group sees it: logs, committed offsets, and who reads what from where."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from feedback.records.envelope import REQUEST_ID, Record

Partition = tuple[str, int]
Place = tuple[str, int, int]


def request_id_of(record: Record) -> str:
    """Return the id of the request that a record carries."""
    return dict(record.headers)[REQUEST_ID].decode()


def place_of(record: Record) -> Place:
    """Return where a record lies."""
    return record.topic, record.partition, record.offset


class KafkaServer:
    """The brokers.

    Attributes:
        logs: every record, by partition; its place is its offset.
        committed: the group's offsets.
        ever_committed: the highest that each of them was.
        owners: who reads each partition; a dead one until the group has noticed.
        positions: the offset to be read next, by partition.
        aborted: the records of transactions that were aborted.
        open: those of transactions that have no end yet.
        late: commits that were given up by those who sent them, and are still under way.
    """

    def __init__(self, topics: Sequence[str], partitions: int) -> None:
        self.logs: dict[Partition, list[Record]] = {
            (topic, number): [] for topic in topics for number in range(partitions)
        }
        self.committed: dict[Partition, int] = dict.fromkeys(self.logs, 0)
        self.ever_committed: dict[Partition, int] = dict.fromkeys(self.logs, 0)
        self.owners: dict[Partition, str | None] = dict.fromkeys(self.logs)
        self.positions: dict[Partition, int] = dict.fromkeys(self.logs, 0)
        self.late: list[Mapping[Partition, int]] = []
        self.aborted: set[Place] = set()
        self.open: set[Place] = set()
        self._partitions = partitions

    def append(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        now_ms: int,
    ) -> Record:
        """Store a record in the partition of its key."""
        number = zlib.crc32(key or b"") % self._partitions
        log = self.logs[topic, number]
        record = Record(topic, number, len(log), now_ms, key, value, tuple(headers))
        log.append(record)
        return record

    def rebalance(self, members: Sequence[str], turn: int, *, eager: bool) -> None:
        """Give the partitions to these members.

        Args:
            turn: by how much the members are turned around.
            eager: everybody gives up everything first, and reads again from what is committed.
        """
        for partition, owner in self.rebalanced(members, turn).items():
            if eager or owner != self.owners[partition]:
                self.positions[partition] = self.committed[partition]
            self.owners[partition] = owner

    def rebalanced(self, members: Sequence[str], turn: int) -> dict[Partition, str | None]:
        """Return who is to read each partition."""
        return {
            partition: members[(place + turn) % len(members)] if members else None
            for place, partition in enumerate(self.logs)
        }

    def poll(self, member: str, most: int) -> list[Record]:
        """Return what this member reads next."""
        polled: list[Record] = []
        for partition, owner in self.owners.items():
            while owner == member and len(polled) < most and self.has_unread(partition):
                record = self.logs[partition][self.positions[partition]]
                self.positions[partition] += 1
                if self.counts(record):
                    polled.append(record)
        return polled

    def has_unread(self, partition: Partition) -> bool:
        """Whether there is something to read, before the first transaction that is still open."""
        position = self.positions[partition]
        is_there = position < len(self.logs[partition])
        return is_there and self.is_stable(self.logs[partition][position])

    def is_stable(self, record: Record) -> bool:
        """Say what read committed says of a transaction without an end: nobody reads beyond it."""
        return place_of(record) not in self.open

    def counts(self, record: Record) -> bool:
        """Say what read committed says of a transaction that was aborted: it never was."""
        return place_of(record) not in self.aborted

    def abort_all(self) -> None:
        """Abort every transaction that is open."""
        self.aborted |= self.open
        self.open.clear()

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit, whoever reads these partitions now: Kafka asks no more than the membership."""
        for partition, offset in offsets.items():
            self.committed[partition] = offset
            self.ever_committed[partition] = max(offset, self.ever_committed[partition])

    def rewind(self, member: str, offsets: Mapping[Partition, int]) -> None:
        """Let a member read its partitions again from these offsets."""
        for partition, offset in offsets.items():
            if self.owners[partition] == member:
                self.positions[partition] = offset

    def reset(self, partition: Partition, offset: int) -> None:
        """Read a partition again from an offset, for the whole group."""
        self.committed[partition] = self.positions[partition] = offset

    def land_late_commits(self) -> bool:
        """Carry out the commits that are still under way; say whether there were any."""
        late, self.late = self.late, []
        for offsets in late:
            self.commit(offsets)
        return bool(late)
