"""Faults on the way to a broker in memory: what was asked for meanwhile has happened, or not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault
from feedback.kafka.fencing import Fenced
from feedback.kafka.kafka_python.engine import KAFKA_PYTHON
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.engine import memory_broker
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.kafka.producer import BatchProducer
from feedback.kafka.writer import KafkaWriter
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.members import MakeMember, Told

TOPIC, PLACE = "orders", ("orders", 0)
LONG_S = 60.0


@pytest.fixture
def told(broker: MemoryBroker, make_member: MakeMember) -> Told:
    """Return a member that has the topic's one partition."""
    broker.make_topic(TOPIC)
    made = make_member(TOPIC)
    made.join(1)
    return made


@pytest.fixture
def producer(broker: MemoryBroker, settings: KafkaSection) -> BatchProducer:
    """Return a producer that knows the topic."""
    broker.make_topic(TOPIC)
    made = engine_of(settings).producer(settings, LONG_S)
    assert made.partitions(TOPIC) == 1
    return made


def record(value: bytes) -> Outgoing:
    return Outgoing(TOPIC, 0, b"k", value, ())


def test_an_address_leads_to_its_broker_within_the_block_whatever_the_client() -> None:
    with memory_broker() as broker:
        for client in ("auto", "confluent", "kafka-python"):
            settings = KafkaSection(bootstrap_servers=broker.address, client=client)
            assert engine_of(settings).name == "memory"
        assert engine_of(KafkaSection()) is KAFKA_PYTHON
    assert engine_of(KafkaSection(bootstrap_servers=broker.address)) is KAFKA_PYTHON


def test_a_commit_whose_answer_is_lost_is_applied(broker: MemoryBroker, told: Told) -> None:
    with broker.mute(), pytest.raises(KafkaFault):
        told.member.commit({PLACE: 1})
    assert told.member.committed([PLACE]) == {PLACE: 1}


def test_a_commit_to_a_broker_that_stands_still_is_applied_when_it_goes_on(
    broker: MemoryBroker, told: Told
) -> None:
    with broker.paused(), pytest.raises(KafkaFault):
        told.member.commit({PLACE: 1})
    assert told.member.committed([PLACE]) == {PLACE: 1}


def test_a_late_commit_of_a_member_that_was_removed_meanwhile_is_refused(
    broker: MemoryBroker, told: Told, settings: KafkaSection
) -> None:
    with broker.paused():
        with pytest.raises(KafkaFault):
            told.member.commit({PLACE: 1})
        broker.expel(settings.group)
    assert told.member.committed([PLACE]) == {PLACE: 0}


def test_a_broker_that_dies_forgets_what_it_was_asked_for(broker: MemoryBroker, told: Told) -> None:
    with broker.paused():
        with pytest.raises(KafkaFault):
            told.member.commit({PLACE: 1})
        with broker.down():
            pass
    assert told.member.committed([PLACE]) == {PLACE: 0}


def test_one_call_fails_and_no_other(broker: MemoryBroker, told: Told) -> None:
    broker.fail_next("commit")
    assert told.member.committed([PLACE]) == {PLACE: 0}
    with pytest.raises(KafkaFault):
        told.member.commit({PLACE: 1})
    told.member.commit({PLACE: 2})
    assert told.member.committed([PLACE]) == {PLACE: 2}


def test_a_record_whose_acknowledgement_is_lost_is_there_once(
    broker: MemoryBroker, producer: BatchProducer
) -> None:
    with broker.mute():
        sent = producer.send(record(b"1"), 0)
        assert isinstance(sent.result(0.1), NotAcknowledged)
    # It stays unknown, however often it is asked for.
    assert isinstance(sent.result(0.1), NotAcknowledged)
    assert [one.value for one in broker.records(TOPIC)] == [b"1"]


def test_a_record_that_nobody_waits_for_any_more_arrives_when_the_broker_goes_on(
    broker: MemoryBroker, producer: BatchProducer
) -> None:
    with broker.paused():
        sent = producer.send(record(b"1"), 0)
        assert isinstance(sent.result(0.0), NotAcknowledged)
        assert broker.records(TOPIC) == []
    assert [one.value for one in broker.records(TOPIC)] == [b"1"]


@pytest.mark.parametrize(
    ("fault", "there"),
    [
        pytest.param(MemoryBroker.down, [b"before", b"after"], id="down"),
        pytest.param(MemoryBroker.paused, [b"before", b"1", b"2", b"after"], id="still"),
        pytest.param(MemoryBroker.mute, [b"before", b"1", b"2", b"after"], id="mute"),
    ],
)
def test_a_writer_calls_unknown_all_that_was_not_acknowledged(
    broker: MemoryBroker,
    settings: KafkaSection,
    fault: Callable[[MemoryBroker], AbstractContextManager[None]],
    there: list[bytes],
) -> None:
    broker.make_topic(TOPIC)
    writer = KafkaWriter(settings)
    assert writer.write([record(b"before")]) == [None]
    with fault(broker):
        said = writer.write([record(b"1"), record(b"2")])
        assert [type(one) for one in said] == [NotAcknowledged] * 2
        writer.close()
    assert writer.write([record(b"after")]) == [None]
    assert [one.value for one in broker.records(TOPIC)] == there
    writer.close()


def test_records_that_found_the_broker_away_keep_their_order(
    broker: MemoryBroker, producer: BatchProducer
) -> None:
    with broker.down():
        sent = [producer.send(record(b"%d" % number), 0) for number in range(3)]
    sent.append(producer.send(record(b"3"), 0))
    assert [one.result(LONG_S) for one in sent] == [None] * 4
    assert [one.value for one in broker.records(TOPIC)] == [b"0", b"1", b"2", b"3"]


def test_a_record_is_written_where_the_broker_is_back_in_time() -> None:
    with memory_broker(longest_wait_s=LONG_S) as broker:
        broker.make_topic(TOPIC)
        settings = KafkaSection(bootstrap_servers=broker.address)
        producer = engine_of(settings).producer(settings, LONG_S)
        assert producer.partitions(TOPIC) == 1
        results: list[object] = []
        with broker.down():
            sent = producer.send(record(b"1"), 0)
            waits = threading.Thread(target=lambda: results.append(sent.result(LONG_S)))
            waits.start()
        waits.join(LONG_S)
        assert results == [None]
        assert [one.value for one in broker.records(TOPIC)] == [b"1"]


def test_a_fence_is_in_doubt_after_a_lost_answer_and_the_record_may_be_there(
    broker: MemoryBroker, settings: KafkaSection
) -> None:
    broker.make_topic(TOPIC)
    fence = engine_of(settings).fences(settings).fence("one-writer")
    fence.take([PLACE])
    with broker.mute(), pytest.raises(KafkaFault):
        fence.write(TOPIC, 0, [record(b"1")], before_each=lambda: None)
    assert not fence.is_held
    with pytest.raises(Fenced):
        fence.write(TOPIC, 0, [record(b"2")], before_each=lambda: None)
    assert [one.value for one in broker.records(TOPIC)] == [b"1"]
