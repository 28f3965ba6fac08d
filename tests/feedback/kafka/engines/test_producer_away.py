"""How the sending of a record ends when the broker fails, whatever library sends it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.engines import engine_of
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.kafka.producer import BatchProducer
from feedback.kafka.scan import KafkaScan
from feedback.kafka.writer import KafkaWriter
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S
from tests.rounds import in_time

pytestmark = pytest.mark.waits

TIMEOUT_S = 2.0
SLACK_S = 15.0


@pytest.fixture
def where(mortal_settings: KafkaSection) -> KafkaSection:
    """Return settings for a broker that may fail."""
    return mortal_settings


@pytest.fixture
def writer(where: KafkaSection) -> Iterator[KafkaWriter]:
    """Yield a writer to that broker."""
    made = KafkaWriter(where, timeout_s=TIMEOUT_S)
    yield made
    made.close()


def record(topic: str, value: bytes = b"v") -> Outgoing:
    """Return a record for partition 0."""
    return Outgoing(topic, 0, b"k", value, ())


def written(writer: KafkaWriter, *records: Outgoing) -> list[KafkaUnavailable | None]:
    """Write in the time that the writer was given."""
    return in_time(lambda: writer.write(records), limit_s=2 * TIMEOUT_S + SLACK_S)


def values(where: KafkaSection, topic: str) -> list[bytes | None]:
    """Return what the topic holds."""
    with KafkaScan(where) as scan:
        pages = scan.pages(scan.spans([topic]))
        return [one.value for page in pages for one in page.records]


def test_what_a_dead_broker_did_not_acknowledge_may_be_there(
    mortal: Ground, where: KafkaSection, writer: KafkaWriter, name: str
) -> None:
    assert written(writer, record(name, b"before")) == [None]
    with mortal.down():
        (error,) = written(writer, record(name, b"meanwhile"))
        assert isinstance(error, NotAcknowledged)
    eventually(lambda: writer.write([record(name, b"after")]) == [None], timeout_s=LIMIT_S)
    # Acknowledged is there, and nobody promised the other one.
    found = values(where, name)
    assert found[0] == b"before" and b"after" in found


def test_what_a_broker_that_stands_still_did_not_acknowledge_is_not_called_refused(
    mortal: Ground, where: KafkaSection, writer: KafkaWriter, name: str
) -> None:
    assert written(writer, record(name, b"before")) == [None]
    with mortal.paused():
        said = written(writer, record(name, b"1"), record(name, b"2"))
        assert [type(one) for one in said] == [NotAcknowledged] * 2
    eventually(lambda: writer.write([record(name, b"after")]) == [None], timeout_s=LIMIT_S)
    assert {b"before", b"after"} <= {*values(where, name)}


def test_a_record_that_expired_within_the_library_may_be_there(
    mortal: Ground, where: KafkaSection, name: str
) -> None:
    producer: BatchProducer = engine_of(where).producer(where, TIMEOUT_S)
    assert producer.partitions(name) == 1
    with mortal.paused():
        sent = producer.send(record(name), 0)
        assert isinstance(sent.result(TIMEOUT_S + SLACK_S), NotAcknowledged)
    producer.close(1.0)


def test_a_producer_that_is_closed_meanwhile_waits_no_longer_than_it_is_told(
    mortal: Ground, where: KafkaSection, name: str
) -> None:
    producer: BatchProducer = engine_of(where).producer(where, TIMEOUT_S)
    assert producer.partitions(name) == 1
    with mortal.paused():
        sent = producer.send(record(name), 0)
        in_time(lambda: producer.close(1.0), limit_s=1.0 + SLACK_S)
        assert isinstance(sent.result(0.1), NotAcknowledged)


def test_a_topic_that_is_not_there_is_not_made_by_writing(
    settings: KafkaSection, topic: Callable[..., str]
) -> None:
    missing = f"missing-{uuid.uuid4().hex}"
    writer = KafkaWriter(settings, timeout_s=TIMEOUT_S)
    said = writer.write([record(missing), record(topic(1))])
    assert [type(one) for one in said] == [NotAcknowledged, type(None)]
    with KafkaScan(settings) as scan:
        assert missing not in scan.topics()
    writer.close()
