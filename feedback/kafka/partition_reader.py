"""A reader of partitions without a group, as `RecordReader` and `KafkaScan` need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from feedback.kafka.values import BrokersAway, Partition
from feedback.records.envelope import Record


class ReadingPlan(NamedTuple):
    """How partitions are read.

    Args:
        fetch_bytes: of one fetch, of all partitions together.
        partition_fetch_bytes: of one partition's share; a larger record is still returned whole.
        connect_s: how long the connection may take.
        committed_only: whether to leave out records of aborted transactions, and to end before the
            first open one.
        skips_gone: whether reading goes on at the first record that is there, where the wanted ones
            are gone; otherwise a poll raises `OffsetGone`.
    """

    fetch_bytes: int
    partition_fetch_bytes: int
    connect_s: float
    committed_only: bool = True
    skips_gone: bool = False


class PartitionReader(Protocol):
    """Reads given partitions; connected. Belongs to one thread at a time.

    Every call may raise `KafkaFault`.
    """

    def assign(self, begins: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on, and no others."""

    def leave_out(self, partition: Partition) -> None:
        """Read no more of a partition until the next `assign`."""

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records, in offset order within each partition; none if none came in time.

        Raises:
            OffsetGone: see `ReadingPlan.skips_gone`.
            TopicRefused: this user may not read one of the topics.
        """

    def position(self, partition: Partition) -> int:
        """Return the next offset to read; -1 where that is not known."""

    def end(self, partition: Partition) -> int | None:
        """Return a partition's end by its leader's last answer since `assign`; None without one."""

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made since a monotonic time."""

    def close(self) -> None:
        """Close the connection."""
