"""A batch that is corrupt on a broker's disk, whatever library reads it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault, PartitionsFailed
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S, POLL_S, Told
from tests.feedback.kafka.engines.test_reader import PLAN
from tests.stack.restartable import Restartable

pytestmark = pytest.mark.waits

# Before a batch's length, and up to its records.
_BEFORE_LENGTH, _HEADER = 8, 61


class StoredBatch:
    """A batch in a segment of a broker.

    Args:
        segment: its file.
        offset: the first of its records.
    """

    def __init__(self, segment: Path, offset: int) -> None:
        self._segment = segment
        data, start = segment.read_bytes(), 0
        while int.from_bytes(data[start : start + 8]) != offset:
            start += 12 + int.from_bytes(data[start + _BEFORE_LENGTH : start + 12])
        self._at = start + _HEADER + 5

    def flip(self) -> None:
        """Change a byte of its records, or change it back."""
        with self._segment.open("r+b") as file:
            file.seek(self._at)
            (byte,) = file.read(1)
            file.seek(self._at)
            file.write(bytes([byte ^ 0xFF]))


@pytest.fixture(params=[None, "gzip"])
def batch(
    request: pytest.FixtureRequest, mortal_broker: Restartable, mortal: Ground, name: str
) -> StoredBatch:
    """Return a corrupt batch, of the offsets 2 and 3, between two others."""
    for _ in range(3):
        with KafkaProducer(
            bootstrap_servers=mortal.address, compression_type=request.param, linger_ms=1000
        ) as producer:
            for digit in b"01":
                producer.send(name, bytes([digit]) * 40, partition=0)
    segment = mortal_broker.folder / "data" / f"{name}-0" / f"{0:020}.log"
    made = StoredBatch(segment, 2)
    made.flip()
    return made


@pytest.fixture
def told(mortal_settings: KafkaSection, name: str) -> Iterator[Told]:
    """Yield a member that reads the topic."""
    made = Told(mortal_settings, name)
    yield made
    made.close()


def test_a_member_names_its_partition_hands_out_nothing_behind_it_and_goes_on_once_it_is_repaired(
    batch: StoredBatch, told: Told, name: str
) -> None:
    found: list[int] = []

    def failures(count: int) -> list[PartitionsFailed]:
        heard: list[PartitionsFailed] = []

        def is_heard() -> bool:
            try:
                found.extend(one.offset for one in told.poll())
            except PartitionsFailed as error:
                heard.append(error)
            return len(heard) >= count

        eventually(is_heard, timeout_s=LIMIT_S)
        return heard

    assert {one.partitions for one in failures(3)} == {frozenset({(name, 0)})}
    assert found == [0, 1]
    assert told.member.position((name, 0)) == 2
    batch.flip()

    def is_all() -> bool:
        with suppress(PartitionsFailed):  # of what was fetched before the repair
            found.extend(one.offset for one in told.poll())
        return len(found) >= 6

    eventually(is_all, timeout_s=LIMIT_S)
    assert found == list(range(6))


def test_a_member_that_begins_in_a_corrupt_batch_begins_there_once_it_is_repaired(
    batch: StoredBatch, mortal_settings: KafkaSection, name: str
) -> None:
    commit(mortal_settings, (name, 0), 3)
    told = Told(mortal_settings, name)
    with pytest.raises(PartitionsFailed):
        eventually(told.poll, timeout_s=LIMIT_S)
    batch.flip()
    found: list[int] = []

    def is_all() -> bool:
        with suppress(PartitionsFailed):
            found.extend(one.offset for one in told.poll())
        return len(found) >= 3

    eventually(is_all, timeout_s=LIMIT_S)
    assert found == [3, 4, 5]
    told.close()


def commit(settings: KafkaSection, place: Partition, offset: int) -> None:
    """Commit an offset of a group that has no members yet."""
    where = {"bootstrap_servers": settings.bootstrap_servers, "group_id": settings.group}
    with KafkaConsumer(**where) as consumer:
        consumer.assign([TopicPartition(*place)])
        consumer.commit({TopicPartition(*place): OffsetAndMetadata(offset, "", -1)})


def test_a_reader_hands_out_nothing_behind_it(
    batch: StoredBatch, mortal_settings: KafkaSection, name: str
) -> None:
    with closing(engine_of(mortal_settings).reader(mortal_settings, PLAN)) as reader:
        found: list[Record] = []

        def is_told() -> bool:
            try:
                found.extend(reader.poll(POLL_S, max_records=9))
            except KafkaFault:
                return True
            return False

        reader.assign({(name, 0): 0})
        for _ in range(2):
            eventually(is_told, timeout_s=LIMIT_S)
        assert [one.offset for one in found] == [0, 1]
        assert reader.position((name, 0)) == 2
