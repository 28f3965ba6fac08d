"""One topic that is deleted, or not ours to read any more: the others go on, on a real broker."""

import uuid
from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    NewTopic,
    ResourcePattern,
    ResourceType,
)

from feedback.kafka import partition_quarantine as set_aside
from feedback.kafka.source import KafkaSource
from feedback.logs import event_of
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.members import ENGINES, look_often
from tests.stack.restartable import Restartable

LIMIT_S = 40.0


class Reading:
    """A member of a group that reads two topics."""

    def __init__(self, address: str, engine: str, say: Callable[[], list[str]]) -> None:
        self.admin = KafkaAdminClient(bootstrap_servers=address)
        self.producer = KafkaProducer(bootstrap_servers=address)
        self.sound, self.faulty = (f"{name}-{uuid.uuid4().hex}" for name in ("sound", "faulty"))
        self.create(self.sound, self.faulty)
        settings = KafkaSection(bootstrap_servers=address, client=engine, group=uuid.uuid4().hex)
        self.source = KafkaSource(settings, [self.sound, self.faulty])
        self.events = say

    def create(self, *topics: str) -> None:
        """Make topics of two partitions."""
        self.admin.create_topics([NewTopic(topic, 2, 1) for topic in topics])
        self.admin.wait_for_topics(list(topics))

    def read(self, topic: str) -> Record:
        """Send a record to a topic and return it when it was read and committed."""
        value = uuid.uuid4().hex.encode()
        self.producer.send(topic, value=value, partition=0).get(timeout=LIMIT_S)
        found = eventually(lambda: self._polled(value), timeout_s=LIMIT_S, what=f"read of {topic}")
        assert found is not None
        return found

    def poll_until(self, event: str) -> None:
        """Poll until an event was logged."""

        def polled() -> bool:
            self.source.poll(0.1, max_records=100)
            return event in self.events()

        eventually(polled, timeout_s=LIMIT_S, what=event)

    def _polled(self, value: bytes) -> Record | None:
        records = self.source.poll(0.2, max_records=100)
        if records:
            self.source.commit({(one.topic, one.partition): one.offset + 1 for one in records})
        return next((one for one in records if one.value == value), None)

    def close(self) -> None:
        """Leave the group."""
        self.source.close()
        self.producer.close()
        self.admin.close()


@pytest.fixture(params=ENGINES)
def reading(
    mortal_broker: Restartable,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Reading]:
    """Yield a reader of two topics whose partitions are all its own."""
    monkeypatch.setattr(set_aside, "RETRY_S", 2.0)
    monkeypatch.setattr(set_aside, "QUIET_S", 2.0)
    look_often(monkeypatch)
    caplog.set_level("INFO")
    made = Reading(
        mortal_broker.address,
        request.param,
        lambda: [event_of(record) for record in caplog.records],
    )
    made.read(made.sound)
    made.read(made.faulty)
    yield made
    made.close()


def test_a_topic_that_is_deleted_is_told_of_once_and_read_again_when_it_is_back(
    reading: Reading,
) -> None:
    reading.admin.delete_topics([reading.faulty])
    reading.poll_until("topic.gone")
    for _ in range(3):
        reading.read(reading.sound)
    assert reading.events().count("topic.gone") == 1
    reading.create(reading.faulty)
    assert reading.read(reading.faulty).offset == 0
    reading.read(reading.sound)
    assert reading.events().count("topic.back") == 1


def test_a_topic_that_may_not_be_read_is_told_of_once_and_the_others_are_read(
    reading: Reading,
) -> None:
    topic = ResourcePattern(ResourceType.TOPIC, reading.faulty)
    everything = ("User:*", "*", ACLOperation.ALL, ACLPermissionType.ALLOW, topic)
    denied = ("User:ANONYMOUS", "*", ACLOperation.READ, ACLPermissionType.DENY, topic)
    reading.admin.create_acls([ACL(*everything), ACL(*denied)])
    reading.producer.send(reading.faulty, value=b"waits", partition=0).get(timeout=LIMIT_S)
    reading.poll_until("partition.failed")
    for _ in range(5):
        reading.read(reading.sound)
    reading.admin.delete_acls([ACLFilter(*denied)])
    reading.poll_until("partition.back")
    # One line for each of its two partitions.
    assert reading.events().count("partition.failed") == 2
    reading.read(reading.faulty)
    reading.read(reading.sound)
