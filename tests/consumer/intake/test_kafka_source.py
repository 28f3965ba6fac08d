"""Reading Kafka as a member of a group: what a pause, a rebalance and a rewind do."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from feedback.kafka.source import KafkaSource
from feedback.logs import event_of
from feedback.settings import sections
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.stack import Servers

pytestmark = pytest.mark.waits


def _settings(servers: Servers, group: str) -> KafkaSection:
    return KafkaSection(bootstrap_servers=servers.kafka, group=group, session_timeout_s=30)


def _fill(servers: Servers, topic: str, *, partitions: int, each: int) -> None:
    producer = KafkaProducer(bootstrap_servers=servers.kafka)
    for at in range(partitions * each):
        producer.send(topic, value=b"x", partition=at % partitions)
    producer.flush()
    producer.close()


def test_partitions_that_a_rebalance_brings_during_a_pause_are_read_after_it(
    servers: Servers, topic: Callable[..., str], group: str
) -> None:
    name = topic(2)
    read: Counter[int] = Counter()
    one = KafkaSource(_settings(servers, group), [name])
    other = KafkaSource(_settings(servers, group), [name])
    leaving = threading.Event()

    def belong_and_leave() -> None:
        while not leaving.is_set():
            other.poll(0.1, max_records=1)
        other.close()

    def take(timeout_s: float, *, max_records: int) -> int:
        read.update(record.partition for record in one.poll(timeout_s, max_records=max_records))
        return read.total()

    def assigned_after_a_poll() -> int:
        one.poll(0.1, max_records=1)
        return len(one.assigned())

    thread = threading.Thread(target=belong_and_leave)
    thread.start()
    try:
        eventually(lambda: assigned_after_a_poll() == 1, timeout_s=30)
        _fill(servers, name, partitions=2, each=20)
        eventually(lambda: take(0.5, max_records=1), timeout_s=30)
        one.pause()
        leaving.set()
        eventually(lambda: (take(0.02, max_records=1), len(one.assigned()))[1] == 2, timeout_s=30)
        for _ in range(10):
            one.pause()
            take(0.02, max_records=1)
        one.resume()
        eventually(lambda: take(0.2, max_records=100) >= 40)
    finally:
        leaving.set()
        thread.join()
        one.close()
    assert dict(read)[0] >= 20
    assert dict(read)[1] >= 20


def test_a_join_that_outlasts_the_poll_that_began_it_is_ended_by_a_later_one(
    servers: Servers, topic: Callable[..., str], group: str
) -> None:
    topics = [topic(2), later := f"later-{group}"]
    one, other = (KafkaSource(_settings(servers, group), topics) for _ in range(2))

    def shares() -> list[int]:
        sources = (one, other)
        for source in sources:
            source.poll(0.05, max_records=1)
        return [len(source.assigned()) for source in sources]

    try:
        eventually(lambda: shares() == [1, 1], timeout_s=30)
        topic(2, name=later)
        # What is new makes each of them join again; the broker waits for the other one meanwhile,
        # so that none of these polls sees the end of its join.
        eventually(lambda: shares() == [2, 2], timeout_s=30)
        every = [(name, partition) for name in topics for partition in (0, 1)]
        assert sorted(one.assigned() + other.assigned()) == sorted(every)
    finally:
        one.close()
        other.close()


def test_a_rewound_record_is_read_again(
    servers: Servers, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    _fill(servers, name, partitions=1, each=3)
    source = KafkaSource(_settings(servers, group), [name])
    try:
        first = eventually(lambda: source.poll(0.5, max_records=3))
        source.rewind({(name, 0): first[0].offset})
        again = eventually(lambda: source.poll(0.5, max_records=3))
    finally:
        source.close()
    assert again[0].offset == first[0].offset == 0


def test_what_is_committed_can_be_read_back(
    servers: Servers, topic: Callable[..., str], group: str
) -> None:
    name = topic(1)
    _fill(servers, name, partitions=1, each=3)
    source = KafkaSource(_settings(servers, group), [name])
    try:
        eventually(lambda: source.poll(0.5, max_records=3))
        assert source.committed([(name, 0)]) == {(name, 0): 0}
        source.commit({(name, 0): 2})
        assert source.committed([(name, 0)]) == {(name, 0): 2}
    finally:
        source.close()


@pytest.mark.parametrize("compression", ["gzip", "lz4", "snappy", "zstd"])
def test_what_a_foreign_producer_compressed_is_read(
    servers: Servers, topic: Callable[..., str], group: str, compression: str
) -> None:
    name = topic(1)
    producer = KafkaProducer(bootstrap_servers=servers.kafka, compression_type=compression)
    producer.send(name, value=b"x" * 1000)
    producer.flush()
    producer.close()
    source = KafkaSource(_settings(servers, group), [name])
    try:
        records = eventually(lambda: source.poll(0.5, max_records=3))
    finally:
        source.close()
    assert [record.value for record in records] == [b"x" * 1000]


def test_partitions_that_were_paused_one_after_the_other_are_all_read_again(
    servers: Servers, topic: Callable[..., str], group: str
) -> None:
    name = topic(2)
    _fill(servers, name, partitions=2, each=20)
    source = KafkaSource(_settings(servers, group), [name])
    read: Counter[int] = Counter()

    def read_of(partition: int | None, *, max_records: int) -> int:
        polled = source.poll(0.1, max_records=max_records)
        read.update(record.partition for record in polled)
        return read.total() if partition is None else read[partition]

    try:
        eventually(lambda: read_of(None, max_records=1), timeout_s=30)
        (first,) = read
        # Of both some records are fetched and not yet handed out when they are paused.
        source.hold({(name, first)})
        eventually(lambda: read_of(1 - first, max_records=1), timeout_s=30)
        source.hold({(name, 0), (name, 1)})
        before = read.total()
        for _ in range(5):
            assert read_of(None, max_records=1) == before
        source.hold(())
        eventually(lambda: read_of(None, max_records=100) == 40, timeout_s=30)
    finally:
        source.close()
    assert read == {0: 20, 1: 20}


def test_a_topic_that_is_left_is_not_read_until_it_is_left_no_longer(
    servers: Servers, topic: Callable[..., str], group: str
) -> None:
    left, other = topic(2), topic(2)
    for name in (left, other):
        _fill(servers, name, partitions=2, each=10)
    source = KafkaSource(_settings(servers, group), [left, other])
    read: Counter[str] = Counter()

    def read_of(name: str) -> int:
        read.update(record.topic for record in source.poll(0.1, max_records=100))
        return read[name]

    try:
        source.leave(frozenset({left}))  # before anything is assigned
        eventually(lambda: read_of(other) == 20, timeout_s=30)
        source.pause()
        source.resume()
        _fill(servers, other, partitions=2, each=10)
        eventually(lambda: read_of(other) == 40, timeout_s=30)
        assert read[left] == 0
        source.leave(frozenset({other}))
        source.resume()
        _fill(servers, other, partitions=2, each=10)
        eventually(lambda: read_of(left) == 20, timeout_s=30)
        assert read[other] == 40
    finally:
        source.close()


def test_partitions_that_a_topic_gets_are_read_soon_and_said(
    servers: Servers,
    topic: Callable[..., str],
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert _settings(servers, group).connection()["metadata_max_age_ms"] <= 30_000
    monkeypatch.setattr(sections, "METADATA_MAX_AGE_MS", 500)
    name = topic(1)
    source = KafkaSource(_settings(servers, group), [name])
    read: set[int] = set()
    try:
        _fill(servers, name, partitions=1, each=1)
        eventually(lambda: source.poll(0.2, max_records=1), timeout_s=30)
        with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
            admin.create_partitions({name: 3})
        _fill(servers, name, partitions=3, each=1)

        def all_read() -> bool:
            read.update(one.partition for one in source.poll(0.2, max_records=10))
            return read == {0, 1, 2}

        eventually(all_read, timeout_s=30)
    finally:
        source.close()
    (grew,) = [one for one in caplog.records if event_of(one) == "topic.grew"]
    assert vars(grew)["onceward_fields"]["partitions"] == 3
