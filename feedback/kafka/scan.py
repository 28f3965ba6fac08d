"""Reads whole topics once, in pages, up to their ends at its beginning.

Records that are written meanwhile are not read. So a scan ends, and one that is resumed later sees
the same records. Memory does not grow with the topics: a page is at most `PAGE_RECORDS` records,
and one fetch `FETCH_BYTES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import UnknownTopicOrPartitionError, for_code

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python import fetching as kafka_fetching
from feedback.kafka.kafka_python.admin import administrator, kafka_faults
from feedback.kafka.kafka_python.records import record_of
from feedback.kafka.kafka_python.sockets import closed_at_a_fault
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

PAGE_RECORDS = 1000
FETCH_BYTES = 8 * 2**20
# One partition's share of that; a larger record is still returned whole.
PARTITION_FETCH_BYTES = 2**20
POLL_MS = 500

Place = tuple[str, int]


class OffsetSpan(NamedTuple):
    """Offsets of one partition: the first to read, and the one behind the last."""

    begin: int
    end: int


OffsetSpans = dict[Place, OffsetSpan]


class ScanPage(NamedTuple):
    """Some records, and the positions of the scan behind them.

    Args:
        positions: for each partition the next offset to read.
        read: how many offsets were passed since the scan's beginning.
        total: how many offsets there are.
    """

    records: list[Record]
    positions: dict[Place, int]
    read: int
    total: int


def resumed(spans: Mapping[Place, OffsetSpan], positions: Mapping[Place, int]) -> OffsetSpans:
    """Return the rest of spans, from these positions on."""
    return {
        place: span._replace(begin=max(span.begin, positions.get(place, span.begin)))
        for place, span in spans.items()
    }


class KafkaScan:
    """Reads topics over a connection that is made at the first scan. Belongs to one thread.

    Args:
        settings: brokers and security; no group is joined, nothing is committed.
        committed_only: whether to leave out records of aborted transactions, and to end before the
            first open one. False for a caller that looks only for its own records, written outside
            of transactions: another writer's open transaction must not hide them.
        timeout_s: how long Kafka may take for an answer, and between records.
    """

    def __init__(
        self, settings: KafkaSection, *, committed_only: bool = True, timeout_s: float = 10.0
    ) -> None:
        self._settings = settings
        self._isolation = "read_committed" if committed_only else "read_uncommitted"
        self._timeout_s = timeout_s
        self._consumer: Any = None

    def __enter__(self) -> KafkaScan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def topics(self) -> list[str]:
        """Return the names of all topics that we may see.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        with (
            kafka_faults(self._settings),
            administrator(self._settings, timeout_s=self._timeout_s) as admin,
        ):
            return sorted(admin.list_topics())

    def spans(self, topics: Iterable[str], *, since_ms: int | None = None) -> OffsetSpans:
        """Return the spans to read now; a topic that does not exist has none.

        Args:
            since_ms: epoch ms; records before the first that is not older are left out.

        Raises:
            KafkaUnavailable: Kafka did not answer, or does not let us read a topic.
        """
        with kafka_faults(self._settings):
            places = self._places(sorted(set(topics)))
            if not places:
                return {}
            consumer, limit_ms = self._connected(), int(self._timeout_s * 1000)
            # The end first, so that no span ends before it begins.
            ends = consumer.end_offsets(places, timeout_ms=limit_ms)
            begins = consumer.beginning_offsets(places, timeout_ms=limit_ms)
            if since_ms is not None:
                wanted = dict.fromkeys(places, max(0, since_ms))
                for place, found in consumer.offsets_for_times(wanted, timeout_ms=limit_ms).items():
                    begins[place] = ends[place] if found is None else found.offset
        return {
            (one.topic, one.partition): OffsetSpan(min(begins[one], ends[one]), ends[one])
            for one in places
        }

    def pages(self, spans: Mapping[Place, OffsetSpan]) -> Iterator[ScanPage]:
        """Read spans to their ends; a partition's records in their order.

        Raises:
            KafkaUnavailable: Kafka has sent nothing for too long.
        """
        left = {TopicPartition(*place): span for place, span in spans.items()}
        left = {place: span for place, span in left.items() if span.begin < span.end}
        if not left:
            return
        positions = {place: span.begin for place, span in spans.items()}
        total = sum(span.end - span.begin for span in left.values())
        with kafka_faults(self._settings):
            consumer = self._connected()
            consumer.assign(list(left))
            # An earlier scan has paused the partitions that it had read.
            consumer.resume(*left)
            for place, span in left.items():
                consumer.seek(place, span.begin)
        deadline_s = monotonic_s() + self._timeout_s
        while left:
            with kafka_faults(self._settings):
                records = self._poll(left)
                passed = self._passed(left)
            if any(passed[place] > positions[place] for place in passed):
                deadline_s = monotonic_s() + self._timeout_s
            elif monotonic_s() > deadline_s:
                raise self._silent()
            positions.update(passed)
            if records:
                read = sum(positions[place] - span.begin for place, span in spans.items())
                yield ScanPage(records, dict(positions), read, total)
                # The caller may have taken its time over the page.
                deadline_s = monotonic_s() + self._timeout_s

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=1000)

    def _poll(self, left: Mapping[TopicPartition, OffsetSpan]) -> list[Record]:
        polled = self._consumer.poll(timeout_ms=POLL_MS, max_records=PAGE_RECORDS)
        return [
            record_of(one)
            for place, found in polled.items()
            for one in found
            if place in left and one.offset < left[place].end
        ]

    def _passed(self, left: dict[TopicPartition, OffsetSpan]) -> dict[Place, int]:
        """Return the position of each partition; those that were read whole leave `left`."""
        passed = {}
        for place, span in list(left.items()):
            position = self._consumer.position(place, timeout_ms=1)
            if position is None:
                continue  # its leader is being looked for
            passed[place.topic, place.partition] = min(position, span.end)
            if position >= span.end:
                del left[place]
                self._consumer.pause(place)
        return passed

    def _places(self, topics: list[str]) -> list[TopicPartition]:
        if not topics:
            return []
        with administrator(self._settings, timeout_s=self._timeout_s) as admin:
            described = admin.describe_topics(topics)
        places = []
        for topic in described:
            code = topic["error_code"]
            if code == UnknownTopicOrPartitionError.errno:
                continue
            if code:
                raise for_code(code)(topic["name"])
            numbers = sorted(one["partition_index"] for one in topic["partitions"])
            places += [TopicPartition(topic["name"], number) for number in numbers]
        return places

    def _connected(self) -> Any:
        if self._consumer is None:
            with closed_at_a_fault() as connect:
                self._consumer = KafkaConsumer(
                    **self._settings.reading() | {"isolation_level": self._isolation},
                    kafka_client=connect,
                    group_id=None,
                    enable_auto_commit=False,
                    # Records that retention has deleted meanwhile cannot be read.
                    auto_offset_reset="earliest",
                    allow_auto_create_topics=False,
                    fetch_max_bytes=FETCH_BYTES,
                    max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
                    fetch_max_wait_ms=100,
                    bootstrap_timeout_ms=int(self._timeout_s * 1000),
                    reconnect_backoff_max_ms=1000,
                    metrics_enabled=False,
                )
            # Partitions that were read whole are paused, with fetched records behind their ends.
            kafka_fetching.mend(self._consumer)
        return self._consumer

    def _silent(self) -> KafkaUnavailable:
        where = self._settings.bootstrap_servers
        return KafkaUnavailable(f"Kafka at {where} has given nothing for {self._timeout_s:.0f} s")
