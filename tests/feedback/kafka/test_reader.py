"""One record read by its coordinates from a real broker, and the ways in which it can be gone."""

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from feedback.errors import ExitCode, KafkaUnavailable
from feedback.kafka.reader import RecordReader, read_record
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST, free_port
from tests.eventually import eventually
from tests.left_open import left_open
from tests.rounds import in_time
from tests.stack import Servers

TIMEOUT_S = 60.0
# The first is enough for one silence and the question about the topic, unless the machine is slow.
LIMITS_S = (1.5, 6.0, 24.0)

Produce = Callable[..., int]


@pytest.fixture
def kafka(servers: Servers, engine: str) -> KafkaSection:
    """Return where the broker is."""
    return KafkaSection(bootstrap_servers=servers.kafka, client=engine, group="unused")


@pytest.fixture
def admin(servers: Servers) -> Iterator[KafkaAdminClient]:
    """Yield an administrator of the broker."""
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as client:
        yield client


@pytest.fixture
def produce(servers: Servers) -> Iterator[Produce]:
    """Yield a function that appends a record to partition 0 and returns its offset."""
    producer = KafkaProducer(bootstrap_servers=servers.kafka)

    def append(topic: str, value: bytes | None, key: bytes | None = None, **given: object) -> int:
        stored = producer.send(topic, key=key, value=value, partition=0, **given).get(timeout=60)
        return int(stored.offset)

    yield append
    producer.close()


@pytest.fixture
def reader(kafka: KafkaSection) -> Iterator[RecordReader]:
    """Yield a reader of the broker."""
    with RecordReader(kafka) as one:
        yield one


@pytest.fixture(name="left_open")
def sockets_left_open() -> Iterator[None]:
    """Let kafka-python leave the sockets of failed connections to the garbage collector."""
    with left_open():
        yield


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


def test_what_retention_removed_is_gone_and_what_stays_is_read(
    reader: RecordReader, topic: Callable[..., str], produce: Produce, admin: KafkaAdminClient
) -> None:
    name = topic(1)
    offsets = [produce(name, b"%d" % n) for n in range(4)]
    admin.delete_records({TopicPartition(name, 0): offsets[2]})
    read = [reader.read(name, 0, at, timeout_s=TIMEOUT_S) for at in offsets]
    assert [one and one.value for one in read] == [None, None, b"2", b"3"]


@pytest.fixture
def eager_cleaner(admin: KafkaAdminClient) -> Iterator[None]:
    """Have the broker look for what it may compact five times a second, and not every 15 s.

    It has thousands of topics later: were this left, it would do little else.
    """
    resource, name, eager = ConfigResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "200"}
    admin.alter_configs([ConfigResource(resource, name, eager)])
    yield
    admin.reset_configs([ConfigResource(resource, name, eager)])


@pytest.mark.usefixtures("eager_cleaner")
def test_what_compaction_removed_is_gone_though_later_records_are_there(
    reader: RecordReader, produce: Produce, admin: KafkaAdminClient, group: str
) -> None:
    name = f"compacted-{group}"
    compacted = {"cleanup.policy": "compact", "segment.ms": "100"}
    compacted["min.cleanable.dirty.ratio"] = "0.001"
    admin.create_topics([NewTopic(name, 1, 1, topic_configs=compacted)])
    admin.wait_for_topics([name])
    first = produce(name, b"old", b"k")
    produce(name, b"new", b"k")

    def is_gone() -> bool:
        # A segment is closed, and may be cleaned, when a later record comes.
        produce(name, b"", b"other")
        return reader.read(name, 0, first, timeout_s=TIMEOUT_S) is None

    eventually(is_gone, timeout_s=90, interval_s=0.2)
    assert reader.read(name, 0, first + 1, timeout_s=TIMEOUT_S) is not None


def _read_to_the_end(reader: RecordReader, topic: str, offset: int) -> Record | None:
    """Return the record. One that is not there takes all of its time, which is short at first."""
    *short_s, long_s = LIMITS_S
    for limit_s in short_s:
        with suppress(KafkaUnavailable):
            return reader.read(topic, 0, offset, timeout_s=limit_s)
    return reader.read(topic, 0, offset, timeout_s=long_s)


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
    reader: RecordReader, topic: Callable[..., str], produce: Produce, admin: KafkaAdminClient
) -> None:
    name = topic(1)
    at = produce(name, b"v")
    assert reader.read(name, 0, at, timeout_s=TIMEOUT_S) is not None
    admin.delete_topics([name])
    eventually(lambda: reader.read(name, 0, at, timeout_s=TIMEOUT_S) is None, timeout_s=30)


@pytest.mark.usefixtures("left_open")
def test_kafka_that_refuses_connections_is_away_and_not_a_record_that_is_gone(
    engine: str,
) -> None:
    settings = KafkaSection(bootstrap_servers=f"{HOST}:{free_port()}", client=engine)

    def read() -> pytest.ExceptionInfo[KafkaUnavailable]:
        with pytest.raises(KafkaUnavailable, match="is away") as caught:
            read_record(settings, "t", 0, 0, 0.5)
        return caught

    caught = in_time(read, limit_s=5)
    assert caught.value.exit_code is ExitCode.NOT_AVAILABLE


@pytest.mark.usefixtures("left_open")
def test_kafka_that_never_answers_is_away_in_time(
    engine: str,
) -> None:
    with socket.create_server((HOST, 0)) as mute:
        where = f"{HOST}:{mute.getsockname()[1]}"
        settings = KafkaSection(bootstrap_servers=where, client=engine)

        def read() -> None:
            with pytest.raises(KafkaUnavailable, match="is away"):
                read_record(settings, "t", 0, 0, 0.5)

        in_time(read, limit_s=5)


@pytest.mark.usefixtures("left_open")
def test_settings_that_do_not_work_are_told_as_such(
    engine: str,
) -> None:
    settings = KafkaSection(bootstrap_servers=":::", client=engine)
    with pytest.raises(KafkaUnavailable, match=r"Kafka|\[kafka\]"):
        read_record(settings, "t", 0, 0, 0.5)
