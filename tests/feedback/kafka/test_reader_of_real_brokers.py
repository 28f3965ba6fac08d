"""One record of a topic that a real broker compacts, and addresses where there is no broker."""

import socket
from collections.abc import Iterator

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from feedback.errors import KafkaUnavailable
from feedback.kafka.reader import RecordReader, read_record
from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Produce
from tests.rounds import in_time
from tests.stack import Servers

TIMEOUT_S = 60.0


@pytest.fixture
def admin(servers: Servers) -> Iterator[KafkaAdminClient]:
    """Yield an administrator of the broker."""
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as client:
        yield client


@pytest.fixture
def reader(settings: KafkaSection) -> Iterator[RecordReader]:
    """Yield a reader of the broker."""
    with RecordReader(settings) as one:
        yield one


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
