"""Which partitions are this registry's: taken when the group assigns them, read into the table."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby

from consumer.features.waits.registry.partition_leases import LeaseLost
from consumer.features.waits.registry.registry_counts import RegistryCounts
from consumer.features.waits.registry.wait_rows import OwnedPartition, WaitChanges, changes_of
from consumer.features.waits.registry.wait_table import WaitTable
from consumer.features.waits.registry.wait_topics import WaitTopic, transactional_prefix
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable, OncewardError
from feedback.kafka.fencing import Fences
from feedback.kafka.source import KafkaSource
from feedback.kafka.values import Partition
from feedback.logs import EventLog
from feedback.records.envelope import Record

log = EventLog("onceward.waits")

# Of a Kafka that gives nothing although there is something.
SILENT_S = 30.0
READ_S = 0.1
# Far more than one poll of the network brings: one transaction for as much as is there.
MAX_RECORDS = 5000


class Stopping(OncewardError):
    """The process is to end, and has not read to the end."""


class PartitionsOwned:
    """Maintains the table of unfinished requests for our partitions. Belongs to one thread.

    Args:
        lease_s: how long a partition stays ours without a word.
        on_read: called after each reading.
    """

    def __init__(
        self,
        *,
        group: str,
        source: KafkaSource,
        table: WaitTable,
        fences: Fences,
        topics: Mapping[str, WaitTopic],
        lease_s: float,
        tally: RegistryCounts,
        stopping: threading.Event,
        on_read: Callable[[], None],
    ) -> None:
        self._group = group
        self._source = source
        self._table = table
        self._fences = fences
        self._topics = topics
        self._lease_s = lease_s
        self._tally = tally
        self._stopping = stopping
        self._on_read = on_read
        self._began_s = monotonic_s()
        self.owned: dict[Partition, OwnedPartition] = {}

    def has_all(self) -> bool:
        """Whether each partition is ours, or certainly another living registry's."""
        if not set(self._source.assigned()) <= self.owned.keys():
            return False
        others = [
            (one.name, number)
            for one in self._topics.values()
            for number in range(one.partitions)
            if (one.name, number) not in self.owned
        ]
        if not others:
            return True
        # A lease that a dead one has left is over by then.
        is_sure = monotonic_s() - self._began_s > 2 * self._lease_s
        return is_sure and self._table.count_leases(others) == len(others)

    def read(self, timeout_s: float) -> None:
        """Read once, into the table; take assigned partitions, and drop revoked ones.

        Raises:
            KafkaUnavailable, JournalUnavailable: it is away; `drop` and read again.
        """
        records = self._source.poll(timeout_s, max_records=MAX_RECORDS)
        gone = self._source.take_revoked()
        assigned = set(self._source.assigned())
        for place in [one for one in self.owned if one in gone or one not in assigned]:
            self._leave(place)
        for place, some in groupby(sorted(records, key=_order), key=_place):
            if place in self.owned:
                self._take_in(self.owned[place], list(some))
        for owned in list(self.owned.values()):
            if owned.lease_end_s - monotonic_s() < self._lease_s * 2 / 3:
                self._take_in(owned, [])
        for place in sorted(assigned - self.owned.keys()):
            self._take(place)
        self._on_read()

    def read_to_end(self, owned: OwnedPartition) -> None:
        """Read until the table has all that stood in a partition at the call.

        Raises:
            Stopping: the process is to end.
        """
        # Behind a transaction that is open, too, a tombstone may stand: nothing expires before it
        # was read.
        end = self._fences.end(*owned.place)
        until_s, seen = monotonic_s() + SILENT_S, -1
        while (position := self._source.position(owned.place)) < end:
            if position > seen:
                until_s, seen = monotonic_s() + SILENT_S, position
            if monotonic_s() > until_s:
                topic, number = owned.place
                raise KafkaUnavailable(f"Kafka gives nothing of {topic}-{number}")
            if self._stopping.is_set():
                raise Stopping("it is to end")
            self.read(READ_S)
            if self.owned.get(owned.place) is not owned:
                raise LeaseLost(f"partition {owned.place} was taken away")

    def renew(self, owned: OwnedPartition) -> None:
        """Hold a partition for another lease; LeaseLost where it is not ours any more."""
        self._take_in(owned, [])
        self.require_lease(owned)

    def require_lease(self, owned: OwnedPartition) -> None:
        """Return while a partition certainly is ours, by the monotonic clock; else LeaseLost."""
        if monotonic_s() >= owned.lease_end_s or self.owned.get(owned.place) is not owned:
            raise LeaseLost(f"the lease of {owned.place} is over")

    def lose(self, owned: OwnedPartition) -> None:
        """Throw away the rows of a partition; it is taken anew while it is assigned."""
        self.owned.pop(owned.place, None)

    def drop(self) -> None:
        """Throw away all that is known: it is asked for again, from where the table stands."""
        self.owned.clear()

    def release(self) -> None:
        """Let others take our partitions at once."""
        places = list(self.owned)
        self.drop()
        if places:
            self._table.release(places)

    def _take(self, place: Partition) -> None:
        topic = self._topics.get(place[0])
        if topic is None:
            return
        began_s = monotonic_s()
        opened = self._table.take(place, topic.topic_id)
        if opened is None:
            # Its records are thrown away until then, and read again.
            return
        if opened.forgotten:
            log.error("waits.topic_made_anew", topic=place[0], forgotten=opened.forgotten)
        name = f"{transactional_prefix(self._group)}{place[0]}.{place[1]}"
        self.owned[place] = OwnedPartition(
            place=place,
            source=topic.source,
            position=opened.position,
            lease_end_s=began_s + self._lease_s,
            fence=self._fences.fence(name),
            begun=list(opened.expiries),
        )
        self._source.rewind({place: opened.position})

    def _leave(self, place: Partition) -> None:
        # Its next owner need not wait for the lease; begun moves are found in the table.
        del self.owned[place]
        self._table.release([place])

    def _take_in(self, owned: OwnedPartition, records: Sequence[Record]) -> None:
        new = [one for one in records if one.offset >= owned.position]
        # Not the source's position: that may be one of a later assignment by now.
        position = new[-1].offset + 1 if new else owned.position
        changes = changes_of(new, group=self._group)
        began_s = monotonic_s()
        try:
            now_ms = self._table.apply(owned.place, changes, read_to=(owned.position, position))
        except LeaseLost:
            log.warning("waits.lease_lost", topic=owned.place[0], partition=owned.place[1])
            self.lose(owned)
            return
        owned.position = position
        owned.lease_end_s = began_s + self._lease_s
        if changes != WaitChanges():
            self._tally.changed(owned.place, changes, now_ms=now_ms)


def _order(record: Record) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _place(record: Record) -> Partition:
    return record.topic, record.partition
