"""One record read by its coordinates, and the ways in which it can be gone."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import pytest

from feedback.errors import ExitCode, KafkaUnavailable
from feedback.kafka.reader import NEAR, RecordReader, read_record
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground, Produce
from tests.rounds import in_time

TIMEOUT_S = 60.0
# The first is enough for one silence and the question about the topic, unless the machine is slow.
LIMITS_S = (1.5, 6.0, 24.0)

Read = TypeVar("Read")


@pytest.fixture
def kafka(settings: KafkaSection) -> KafkaSection:
    """Return where the broker is."""
    return settings


@pytest.fixture
def reader(kafka: KafkaSection) -> Iterator[RecordReader]:
    """Yield a reader of the broker."""
    with RecordReader(kafka) as one:
        yield one


def test_a_record_is_given_as_it_was_sent_and_no_other(
    kafka: KafkaSection, topic: Callable[..., str], produce: Produce
) -> None:
    name = topic(1)
    produce(name, b"before")
    at = produce(name, b"\x00value", b"\xffkey", headers=[("h", b"\x01"), ("h", b"")])
    produce(name, b"after")
    found = read_record(kafka, name, 0, at, TIMEOUT_S)
    assert found is not None
    assert (found.topic, found.partition, found.offset) == (name, 0, at)
    assert (found.key, found.value) == (b"\xffkey", b"\x00value")
    assert found.headers == (("h", b"\x01"), ("h", b""))
    assert found.timestamp_ms > 0


def test_null_and_empty_are_told_apart_and_a_large_one_comes_whole(
    reader: RecordReader, topic: Callable[..., str], produce: Produce
) -> None:
    name = topic(1)
    large = bytes(900_000)
    for value in (None, b"", large):
        found = reader.read(name, 0, produce(name, value, b""), timeout_s=TIMEOUT_S)
        assert found is not None
        assert (found.key, found.value) == (b"", value)


def test_one_reader_reads_many_in_any_order_of_several_topics(
    reader: RecordReader, topic: Callable[..., str], produce: Produce
) -> None:
    names = [topic(1), topic(1)]
    offsets = {name: [produce(name, b"%d" % n) for n in range(20)] for name in names}
    for n in (19, 0, 7, 8, 9, 3):
        for name in names:
            found = reader.read(name, 0, offsets[name][n], timeout_s=TIMEOUT_S)
            assert found is not None
            assert (found.topic, found.value) == (name, b"%d" % n)


def test_many_of_a_partition_are_read_together_and_what_is_gone_is_none(
    reader: RecordReader,
    topic: Callable[..., str],
    produce: Produce,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topic(1)
    values = [b"%d" % number for number in range(3 * NEAR)]
    offsets = [produce(name, value) for value in values]
    ground.delete_records((name, 0), offsets[2])
    asked: list[int] = []
    read_one = RecordReader._read

    def count(
        self: RecordReader, where: Partition, offset: int, deadline_s: float
    ) -> Record | None:
        asked.append(offset)
        return read_one(self, where, offset, deadline_s)

    monkeypatch.setattr(RecordReader, "_read", count)
    wanted = [*offsets[:9], *offsets[10:40:3], offsets[-1]]
    found = reader.read_many(name, 0, wanted, timeout_s=TIMEOUT_S)
    assert {at: one and one.value for at, one in found.items()} == {
        **dict.fromkeys(wanted[:2]),
        **{at: values[offsets.index(at)] for at in wanted[2:]},
    }
    # Each that is gone, the first that is there, and the one that lies far behind it.
    assert set(asked) >= {*wanted[:3]}
    assert len(asked) < len(wanted) / 2


def test_of_many_the_one_beyond_the_end_is_none(
    reader: RecordReader, topic: Callable[..., str], produce: Produce
) -> None:
    name = topic(1)
    at = produce(name, b"v")

    def read(limit_s: float) -> dict[int, Record | None]:
        return reader.read_many(name, 0, [at, at + 1], timeout_s=limit_s)

    found = _in_all_of_its_time(read)
    assert {offset: one and one.value for offset, one in found.items()} == {at: b"v", at + 1: None}


def test_what_retention_removed_is_gone_and_what_stays_is_read(
    reader: RecordReader, topic: Callable[..., str], produce: Produce, ground: Ground
) -> None:
    name = topic(1)
    offsets = [produce(name, b"%d" % n) for n in range(4)]
    ground.delete_records((name, 0), offsets[2])
    read = [reader.read(name, 0, at, timeout_s=TIMEOUT_S) for at in offsets]
    assert [one and one.value for one in read] == [None, None, b"2", b"3"]


def _read_to_the_end(reader: RecordReader, topic: str, offset: int) -> Record | None:
    return _in_all_of_its_time(
        lambda limit_s: reader.read(topic, 0, offset, timeout_s=limit_s),
    )


def _in_all_of_its_time(read: Callable[[float], Read]) -> Read:
    """Return the result. A record that is not there takes all its time, which is short at first."""
    *short_s, long_s = LIMITS_S
    for limit_s in short_s:
        with suppress(KafkaUnavailable):
            return read(limit_s)
    return read(long_s)


def test_beyond_the_end_there_is_nothing(
    reader: RecordReader, topic: Callable[..., str], produce: Produce
) -> None:
    name = topic(1)
    at = produce(name, b"v")
    assert _read_to_the_end(reader, name, at + 1) is None
    assert _read_to_the_end(reader, name, at + 1000) is None
    assert reader.read(name, 0, at, timeout_s=TIMEOUT_S) is not None


def test_a_topic_or_a_partition_that_does_not_exist_holds_nothing(
    reader: RecordReader, topic: Callable[..., str], group: str
) -> None:
    assert reader.read(f"nowhere-{group}", 0, 0, timeout_s=TIMEOUT_S) is None
    assert reader.read(topic(1), 7, 0, timeout_s=TIMEOUT_S) is None


def test_a_deleted_topic_holds_nothing_also_for_a_reader_that_knew_it(
    reader: RecordReader, topic: Callable[..., str], produce: Produce, ground: Ground
) -> None:
    name = topic(1)
    at = produce(name, b"v")
    assert reader.read(name, 0, at, timeout_s=TIMEOUT_S) is not None
    ground.delete_topic(name)
    eventually(lambda: reader.read(name, 0, at, timeout_s=TIMEOUT_S) is None, timeout_s=30)


@pytest.mark.usefixtures("left_open")
def test_kafka_that_refuses_connections_is_away_and_not_a_record_that_is_gone(
    nobody: KafkaSection,
) -> None:

    def read() -> pytest.ExceptionInfo[KafkaUnavailable]:
        with pytest.raises(KafkaUnavailable, match="is away") as caught:
            read_record(nobody, "t", 0, 0, 0.5)
        return caught

    caught = in_time(read, limit_s=5)
    assert caught.value.exit_code is ExitCode.NOT_AVAILABLE
