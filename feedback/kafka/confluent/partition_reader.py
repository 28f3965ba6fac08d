"""A reader of partitions without a group, on librdkafka."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from feedback.clock import monotonic_s
from feedback.kafka.confluent.anew import RecordsAnew
from feedback.kafka.confluent.connection import connection
from feedback.kafka.confluent.faults import ABSENT, READ, fault_from, faults
from feedback.kafka.confluent.records import record_of
from feedback.kafka.confluent.standing import ClientStanding, await_broker
from feedback.kafka.errors import KafkaFault
from feedback.kafka.partition_reader import ReadingPlan
from feedback.kafka.values import BrokersAway, Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

_FETCH_WAIT_MS = 100
# librdkafka asks for the coordinator of the group that it must be given; none is joined.
_NO_GROUP = "no-group"
_PASSED_OVER = ABSENT | {KafkaError.GROUP_AUTHORIZATION_FAILED}


class ConfluentReader:
    """See `feedback.kafka.partition_reader.PartitionReader`.

    Args:
        settings: brokers and security; no group is joined, nothing is committed.
        anew: reads the records that confluent-kafka cannot give.
    """

    def __init__(self, settings: KafkaSection, plan: ReadingPlan, anew: RecordsAnew) -> None:
        self._settings = settings
        self._anew = anew
        self._standing = ClientStanding(settings)
        self._next: dict[Partition, int] = {}
        # Where librdkafka's position is to be set back.
        self._again: dict[Partition, int] = {}
        # Those of which a leader has answered.
        self._heard: set[Partition] = set()
        self._owed: list[KafkaFault] = []
        with faults(settings):
            self._consumer = Consumer(
                {
                    **connection(settings),
                    "error_cb": self._standing.hear_error,
                    "group.id": _NO_GROUP,
                    "enable.auto.commit": False,
                    "enable.auto.offset.store": False,
                    "auto.offset.reset": "earliest" if plan.skips_gone else "error",
                    "isolation.level": "read_committed"
                    if plan.committed_only
                    else "read_uncommitted",
                    "check.crcs": True,
                    "allow.auto.create.topics": False,
                    "enable.partition.eof": True,
                    # A fetch may bring as much as one record may have: not less.
                    "message.max.bytes": plan.fetch_bytes,
                    "fetch.max.bytes": plan.fetch_bytes,
                    "fetch.message.max.bytes": plan.partition_fetch_bytes,
                    "queued.max.messages.kbytes": max(1, plan.fetch_bytes // 1024),
                    "fetch.wait.max.ms": _FETCH_WAIT_MS,
                    "fetch.queue.backoff.ms": 20,
                }
            )
        try:
            await_broker(self._consumer, self._standing, settings, plan.connect_s)
        except BaseException:
            self._consumer.close()
            raise

    def assign(self, begins: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self._owed.clear()
        self._again.clear()
        self._heard.clear()
        self._next = dict(begins)
        with faults(self._settings):
            self._consumer.assign([TopicPartition(*one, offset) for one, offset in begins.items()])

    def leave_out(self, partition: Partition) -> None:
        """Read no more of a partition until the next `assign`."""
        self._again.pop(partition, None)
        # A pause would outlast that.
        with faults(self._settings):
            self._consumer.incremental_unassign([TopicPartition(*partition)])

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records; none also when a partition's end was reached meanwhile."""
        until_s = monotonic_s() + timeout_s
        while not self._owed:
            positions = dict(self._next)
            with faults(self._settings, operation=READ):
                for place, offset in list(self._again.items()):
                    self._consumer.seek(TopicPartition(*place, offset))
                    # Not before: until it is there nothing of it is handed out.
                    del self._again[place]
                first = self._consumer.poll(max(0.0, until_s - monotonic_s()))
                polled = [] if first is None else [first, *self._ready(max_records - 1)]
            with closing(self._anew):
                records = [one for message in polled for one in self._taken(message)]
            if records or positions != self._next:
                return records
            if not self._owed and monotonic_s() >= until_s:
                return []
        raise self._owed.pop(0)

    def _ready(self, most: int) -> list[Any]:
        return self._consumer.consume(most, 0) if most > 0 else []

    def _taken(self, message: Any) -> list[Record]:
        """Return the record of a message; an event has none."""
        place = (message.topic(), message.partition())
        error = message.error()
        if error is None:
            self._heard.add(place)
            if place not in self._next or place in self._again:
                return []
            try:
                record = record_of(message, self._anew.read)
            except KafkaFault as fault:
                self._again[place] = message.offset()
                self._owed.append(fault)
                return []
            self._next[place] = message.offset() + 1
            return [] if record is None else [record]
        if error.code() == KafkaError._PARTITION_EOF:
            self._heard.add(place)
            # One that was reached behind a fault is not the end of what was handed out.
            if place in self._next and place not in self._again:
                self._next[place] = message.offset()
        elif error.code() not in _PASSED_OVER:
            found = fault_from(error, self._settings, operation=READ, topic=place[0])
            if not found.is_passing:
                self._owed.append(found)
            if place in self._next and error.code() == KafkaError._BAD_MSG:
                # librdkafka reads on behind a batch that is corrupt.
                self._again.setdefault(place, self._next[place])
        return []

    def position(self, partition: Partition) -> int:
        """Return the next offset to read."""
        return self._next.get(partition, -1)

    def end(self, partition: Partition) -> int | None:
        """Return a partition's end."""
        # librdkafka remembers one from an earlier assignment.
        if partition not in self._heard:
            return None
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
        except KafkaException:
            return None
        return end if end >= 0 else None

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made."""
        return self._standing.why_away(since_s=since_s)

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close()
