"""A reader of partitions without a group, in memory."""

from __future__ import annotations

from collections.abc import Mapping

from feedback.clock import monotonic_s
from feedback.kafka.errors import OffsetGone, TopicAbsent
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.faults import said
from feedback.kafka.memory.log import MemoryLog
from feedback.kafka.partition_reader import ReadingPlan
from feedback.kafka.values import BrokersAway, Partition
from feedback.records.envelope import Record


class MemoryReader:
    """See `feedback.kafka.partition_reader.PartitionReader`.

    Args:
        broker: the broker of this address.
    """

    def __init__(self, broker: MemoryBroker, plan: ReadingPlan) -> None:
        self._broker = broker
        self._plan = plan
        self._next: dict[Partition, int] = {}
        self._left_out: set[Partition] = set()
        self._ends: dict[Partition, int] = {}
        self._lost_s, self._lost_why = float("-inf"), ""
        broker.ask("connect", lambda: None, limit_s=plan.connect_s)

    def assign(self, begins: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self._next = dict(begins)
        self._left_out.clear()
        self._ends.clear()

    def leave_out(self, partition: Partition) -> None:
        """Read no more of a partition until the next `assign`."""
        self._left_out.add(partition)

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records; none also when a position has moved over offsets without any."""
        until_s = monotonic_s() + timeout_s
        with self._broker.changed:
            while True:
                before = dict(self._next)
                records = self._fetched(max_records)
                left_s = until_s - monotonic_s()
                if records or before != self._next or left_s <= 0:
                    return records
                self._broker.wait(left_s)

    def _fetched(self, most: int) -> list[Record]:
        """Return the records that are there now; for callers with the broker's lock."""
        if not self._broker.is_up:
            self._lost_s, self._lost_why = monotonic_s(), self._broker.state.value
            return []
        found: list[Record] = []
        for one in sorted(self._next.keys() - self._left_out):
            try:
                log = self._broker.log(one, "Read")
            except TopicAbsent:
                continue
            self._ends[one] = log.end
            records, self._next[one] = log.read(
                self._begin(one, log),
                most=most - len(found),
                committed_only=self._plan.committed_only,
            )
            found += records
        return found

    def _begin(self, partition: Partition, log: MemoryLog) -> int:
        offset = self._next[partition]
        if log.begin <= offset <= log.end:
            return offset
        if self._plan.skips_gone:
            return log.begin
        topic, number = partition
        words = f"OffsetOutOfRangeError {offset} of {topic}-{number}"
        raise said(OffsetGone, self._broker.address, words)

    def position(self, partition: Partition) -> int:
        """Return the next offset to read."""
        return self._next.get(partition, -1)

    def end(self, partition: Partition) -> int | None:
        """Return a partition's end."""
        return self._ends.get(partition)

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made."""
        return BrokersAway(self._lost_why if self._lost_s >= since_s else "")

    def close(self) -> None:
        """Close the connection."""
        self._next.clear()
