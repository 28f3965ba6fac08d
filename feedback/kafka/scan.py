"""Reads whole topics once, in pages, up to their ends at its beginning.

Records that are written meanwhile are not read. So a scan ends, and one that is resumed later sees
the same records. Memory does not grow with the topics: a page is at most `PAGE_RECORDS` records,
and one fetch `FETCH_BYTES`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.admin import administrator
from feedback.kafka.administrator import Administrator, OffsetMark, TopicDescription
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import TopicAbsent, TopicRefused
from feedback.kafka.partition_reader import PartitionReader, ReadingPlan
from feedback.kafka.sight import why_unseen
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

PAGE_RECORDS = 1000
FETCH_BYTES = 2 * 2**20
# One partition's share of that; a larger record is still returned whole.
PARTITION_FETCH_BYTES = 2**18
POLL_S = 0.5


class OffsetSpan(NamedTuple):
    """Offsets of one partition: the first to read, and the one behind the last."""

    begin: int
    end: int


OffsetSpans = dict[Partition, OffsetSpan]


class ScanPage(NamedTuple):
    """Some records, and the positions of the scan behind them.

    Args:
        positions: for each partition the next offset to read.
        read: how many offsets were passed since the scan's beginning.
        total: how many offsets there are.
    """

    records: list[Record]
    positions: dict[Partition, int]
    read: int
    total: int


def resumed(
    spans: Mapping[Partition, OffsetSpan], positions: Mapping[Partition, int]
) -> OffsetSpans:
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

    Attributes:
        topic_ids: of the topics of the last spans, as `TopicDescription` has them. The offsets of a
            topic with another id are those of other records.
    """

    def __init__(
        self, settings: KafkaSection, *, committed_only: bool = True, timeout_s: float = 10.0
    ) -> None:
        self._settings = settings
        self._committed_only = committed_only
        self._timeout_s = timeout_s
        self._reader: PartitionReader | None = None
        self.topic_ids: dict[str, str] = {}

    def __enter__(self) -> KafkaScan:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def topics(self) -> list[str]:
        """Return the names of all topics that we may see.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        with administrator(self._settings, timeout_s=self._timeout_s) as admin:
            return sorted(admin.topics())

    def why_unseen(
        self, there: Collection[str], beside: Callable[[str], str]
    ) -> TopicRefused | None:
        """See `feedback.kafka.sight`."""
        with administrator(self._settings, timeout_s=self._timeout_s) as admin:
            return why_unseen(admin, there, beside)

    def ids_of(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of those topics that exist; see `topic_ids`.

        Raises:
            KafkaUnavailable: Kafka did not answer, or does not let us read a topic.
        """
        if not topics:
            return {}
        with administrator(self._settings, timeout_s=self._timeout_s) as admin:
            return {one.name: one.topic_id for one in _there(admin, sorted(topics))}

    def spans(self, topics: Iterable[str], *, since_ms: int | None = None) -> OffsetSpans:
        """Return the spans to read now; a topic that does not exist has none.

        Args:
            since_ms: epoch ms; records before the first that is not older are left out.

        Raises:
            KafkaUnavailable: Kafka did not answer, or does not let us read a topic.
        """
        wanted = sorted(set(topics))
        self.topic_ids = {}
        if not wanted:
            return {}
        with administrator(self._settings, timeout_s=self._timeout_s) as admin:
            there = _there(admin, wanted)
            # Before the offsets: whoever reads a topic that is made anew meanwhile has the old id,
            # and finds another one the next time.
            self.topic_ids = {one.name: one.topic_id for one in there}
            places = [(one.name, number) for one in there for number in sorted(one.partitions)]
            # The end first, so that no span ends before it begins.
            ends = admin.offsets(
                places, OffsetMark.COMMITTED_END if self._committed_only else OffsetMark.END
            )
            begins = admin.offsets(places, OffsetMark.BEGIN)
            if since_ms is not None:
                found = admin.offsets_at(places, max(0, since_ms))
                begins = {one: ends[one] if found[one] < 0 else found[one] for one in places}
        return {one: OffsetSpan(min(begins[one], ends[one]), ends[one]) for one in places}

    def pages(self, spans: Mapping[Partition, OffsetSpan]) -> Iterator[ScanPage]:
        """Read spans to their ends; a partition's records in their order.

        Raises:
            KafkaUnavailable: Kafka has sent nothing for too long.
        """
        left = {place: span for place, span in spans.items() if span.begin < span.end}
        if not left:
            return
        positions = {place: span.begin for place, span in spans.items()}
        total = sum(span.end - span.begin for span in left.values())
        reader = self._connected()
        reader.assign({place: span.begin for place, span in left.items()})
        deadline_s = monotonic_s() + self._timeout_s
        while left:
            records = [
                one
                for one in reader.poll(POLL_S, max_records=PAGE_RECORDS)
                if (span := left.get((one.topic, one.partition))) and one.offset < span.end
            ]
            passed = _passed(reader, left)
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
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _connected(self) -> PartitionReader:
        if self._reader is None:
            reading = ReadingPlan(
                FETCH_BYTES,
                PARTITION_FETCH_BYTES,
                connect_s=self._timeout_s,
                committed_only=self._committed_only,
                # Records that retention has deleted meanwhile cannot be read.
                skips_gone=True,
            )
            self._reader = engine_of(self._settings).reader(self._settings, reading)
        return self._reader

    def _silent(self) -> KafkaUnavailable:
        where = self._settings.bootstrap_servers
        return KafkaUnavailable(f"Kafka at {where} has given nothing for {self._timeout_s:.0f} s")


def _passed(reader: PartitionReader, left: dict[Partition, OffsetSpan]) -> dict[Partition, int]:
    """Return the position of each partition; those that were read whole leave `left`."""
    passed = {}
    for place, span in list(left.items()):
        position = reader.position(place)
        if position < 0:
            continue  # its leader is being looked for
        passed[place] = min(position, span.end)
        if position >= span.end:
            del left[place]
            reader.leave_out(place)
    return passed


def _there(admin: Administrator, topics: list[str]) -> list[TopicDescription]:
    there: list[TopicDescription] = []
    for found in admin.describe(topics).values():
        if isinstance(found, TopicDescription):
            there.append(found)
        elif not isinstance(found, TopicAbsent):
            raise found
    return there
