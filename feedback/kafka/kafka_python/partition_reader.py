"""A reader of partitions without a group, on kafka-python.

Facts it depends on (kafka-python 3.0.12): without a reset policy `poll` raises for an offset out of
range. A missing topic is polled in silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from feedback.kafka.kafka_python import fetching as kafka_fetching
from feedback.kafka.kafka_python.failures import fault_lost, why_lost
from feedback.kafka.kafka_python.faults import faults
from feedback.kafka.kafka_python.records import record_of
from feedback.kafka.kafka_python.sockets import closed_at_a_fault
from feedback.kafka.partition_reader import ReadingPlan
from feedback.kafka.values import BrokersAway, Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

_FETCH_WAIT_MS = 100


class KafkaPythonReader:
    """See `feedback.kafka.partition_reader.PartitionReader`.

    Args:
        settings: brokers and security; no group is joined, nothing is committed.
    """

    def __init__(self, settings: KafkaSection, reading: ReadingPlan) -> None:
        self._settings = settings
        isolation = "read_committed" if reading.committed_only else "read_uncommitted"
        with faults(settings), closed_at_a_fault() as connect:
            self._consumer: Any = KafkaConsumer(
                **settings.connection(),
                kafka_client=connect,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="earliest" if reading.skips_gone else "none",
                isolation_level=isolation,
                allow_auto_create_topics=False,
                fetch_max_bytes=reading.fetch_bytes,
                max_partition_fetch_bytes=reading.partition_fetch_bytes,
                fetch_max_wait_ms=_FETCH_WAIT_MS,
                # A broker would leave out of its answers a partition whose end it has told before.
                enable_incremental_fetch_sessions=False,
                bootstrap_timeout_ms=max(1, int(reading.connect_s * 1000)),
                reconnect_backoff_max_ms=1000,
                metrics_enabled=False,
            )
        # Partitions that were read whole are paused, with fetched records behind their ends.
        kafka_fetching.mend(self._consumer)

    def assign(self, begins: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        places = {TopicPartition(*one): offset for one, offset in begins.items()}
        with faults(self._settings):
            if self._consumer.assignment() != {*places}:
                self._consumer.assign([*places])
            # Those that were left out are paused.
            self._consumer.resume(*places)
            for place, offset in places.items():
                self._consumer.seek(place, offset)
                # Else its leader's last answer is one from before.
                self._consumer._subscription.assignment[place].highwater = None

    def leave_out(self, partition: Partition) -> None:
        """Read no more of a partition until the next `assign`."""
        self._consumer.pause(TopicPartition(*partition))

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records."""
        with faults(self._settings):
            polled = self._consumer.poll(int(timeout_s * 1000) + 1, max_records=max_records)
        return [record_of(one) for records in polled.values() for one in records]

    def position(self, partition: Partition) -> int:
        """Return the next offset to read."""
        with faults(self._settings):
            found = self._consumer.position(TopicPartition(*partition), timeout_ms=1)
        return -1 if found is None else int(found)

    def end(self, partition: Partition) -> int | None:
        """Return a partition's end."""
        found: int | None = self._consumer.highwater(TopicPartition(*partition))
        return found

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made."""
        net = self._consumer._net
        return BrokersAway(why_lost(net, since_s=since_s) or "", fault_lost(net, since_s=since_s))

    def close(self) -> None:
        """Close the connection."""
        self._consumer.close(autocommit=False, timeout_ms=1000)
