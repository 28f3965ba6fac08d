"""What a reader of partitions does, whatever library it stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from feedback.kafka.engines import engine_of
from feedback.kafka.errors import OffsetGone
from feedback.kafka.partition_reader import PartitionReader, ReadingPlan
from feedback.kafka.values import Partition
from feedback.records.envelope import NULL_HEADER, Record
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import READ_NAME, Ground
from tests.feedback.kafka.engines.members import LIMIT_S, POLL_S

MakeTopic = Callable[..., str]
MakeReader = Callable[..., PartitionReader]
VALUES = [b"%d" % number for number in range(20)]
PLAN = ReadingPlan(65_536, 65_536, connect_s=LIMIT_S)


@pytest.fixture
def make_reader(settings: KafkaSection) -> Iterator[MakeReader]:
    """Yield a factory of readers, closed at the end; the plan is changed as named."""
    with ExitStack() as ends:

        def make(**changed: bool) -> PartitionReader:
            reader = engine_of(settings).reader(settings, PLAN._replace(**changed))
            ends.callback(reader.close)
            return reader

        yield make


def read(reader: PartitionReader, count: int) -> list[Record]:
    """Poll until so many records came."""
    found: list[Record] = []

    def is_all() -> bool:
        found.extend(reader.poll(POLL_S, max_records=count - len(found)))
        return len(found) >= count

    eventually(is_all, timeout_s=LIMIT_S)
    return found


def await_position(reader: PartitionReader, place: Partition, position: int) -> None:
    """Poll until it is there; no record may come."""
    eventually(
        lambda: reader.poll(POLL_S, max_records=9) == [] and reader.position(place) == position,
        timeout_s=LIMIT_S,
    )


def test_it_reads_from_where_it_is_told_to_and_again_from_elsewhere(
    make_reader: MakeReader, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(2)
    for number in range(2):
        ground.write(name, VALUES, partition=number)
    reader = make_reader()
    reader.assign({(name, 0): 15, (name, 1): 18})
    found = read(reader, 7)
    assert [one.offset for one in found if one.partition == 0] == list(range(15, 20))
    assert [one.offset for one in found if one.partition == 1] == [18, 19]
    assert (reader.position((name, 0)), reader.end((name, 0))) == (20, 20)
    reader.assign({(name, 0): 3})
    assert [(one.partition, one.offset) for one in read(reader, 2)] == [(0, 3), (0, 4)]


def test_what_is_left_out_is_not_read_until_it_is_assigned_again(
    make_reader: MakeReader, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(2)
    reader = make_reader()
    reader.assign({(name, 0): 0, (name, 1): 0})
    reader.leave_out((name, 0))
    for number in range(2):
        ground.write(name, VALUES, partition=number)
    assert {one.partition for one in read(reader, len(VALUES))} == {1}
    for _ in range(10):
        assert reader.poll(POLL_S, max_records=99) == []
    reader.assign({(name, 0): 0, (name, 1): len(VALUES)})
    assert [(one.partition, one.value) for one in read(reader, 20)] == [(0, one) for one in VALUES]


def test_it_leaves_out_aborted_transactions_and_ends_before_an_open_one(
    make_reader: MakeReader, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    place = (name, 0)
    with ground.transactions() as first, ground.transactions() as second:
        first.write(name, b"aborted")
        first.abort()
        second.write(name, b"open")
        reader, all_of_it = make_reader(), make_reader(committed_only=False)
        reader.assign({place: 0})
        for _ in range(10):
            assert reader.poll(POLL_S, max_records=9) == []
        all_of_it.assign({place: 0})
        assert [one.value for one in read(all_of_it, 2)] == [b"aborted", b"open"]
        second.commit()
        assert [one.value for one in read(reader, 1)] == [b"open"]
        await_position(reader, place, 4)


def test_an_empty_partition_has_an_end_and_no_records(
    make_reader: MakeReader, topic: MakeTopic
) -> None:
    name = topic(1)
    reader = make_reader()
    reader.assign({(name, 0): 0})
    await_position(reader, (name, 0), 0)
    eventually(
        lambda: reader.poll(POLL_S, max_records=9) == [] and reader.end((name, 0)) == 0,
        timeout_s=LIMIT_S,
    )


def test_offsets_that_are_gone_are_said_or_skipped(
    make_reader: MakeReader, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    ground.write(name, VALUES)
    ground.delete_records((name, 0), 12)
    reader = make_reader()
    for gone in (3, 2000):
        reader.assign({(name, 0): gone})
        with pytest.raises(OffsetGone):
            eventually(lambda: reader.poll(POLL_S, max_records=9), timeout_s=LIMIT_S)
    reader.assign({(name, 0): 18})
    assert [one.offset for one in read(reader, 2)] == [18, 19]
    skipping = make_reader(skips_gone=True)
    skipping.assign({(name, 0): 3})
    assert [one.offset for one in read(skipping, 8)] == list(range(12, 20))


def test_a_topic_that_is_not_there_is_silent_and_its_neighbour_is_read(
    make_reader: MakeReader, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    ground.write(name, VALUES)
    reader = make_reader()
    reader.assign({(f"{name}-missing", 0): 0, (name, 0): 0, (name, 7): 0})
    assert [one.value for one in read(reader, len(VALUES))] == VALUES
    for _ in range(10):
        assert reader.poll(POLL_S, max_records=9) == []
    assert reader.end((f"{name}-missing", 0)) is None


@pytest.mark.parametrize("committed_only", [True, False])
def test_any_record_is_given_as_it_is(
    make_reader: MakeReader,
    topic: MakeTopic,
    ground: Ground,
    committed_only: bool,
) -> None:
    name = topic(1)
    # Larger than what one fetch is to bring.
    ground.write(name, [bytes(900_000)], key=b"", headers=[("a", b"\xff"), ("é", b"")])
    ground.write(name, [b""], headers=[("a", NULL_HEADER)])
    ground.write_odd_name(name)
    reader = make_reader(committed_only=committed_only)
    reader.assign({(name, 0): 0})
    large, null, odd = read(reader, 3)
    assert (large.key, len(large.value or b"")) == (b"", 900_000)
    assert large.headers == (("a", b"\xff"), ("é", b""))
    assert large.timestamp_ms > 0
    assert (null.key, null.value, null.headers) == (None, b"", (("a", NULL_HEADER),))
    assert odd.headers == ((READ_NAME, b"1"), ("after", b"2"))
    assert (odd.value, odd.key) == (b"odd", b"k")
