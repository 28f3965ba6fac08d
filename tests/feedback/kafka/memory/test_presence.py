"""Faults on the way to a broker in memory: what was asked for meanwhile has happened, or not."""

from __future__ import annotations

import threading

import pytest

from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault
from feedback.kafka.fencing import Fenced
from feedback.kafka.kafka_python.engine import KAFKA_PYTHON
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.engine import memory_broker
from feedback.kafka.outgoing import NotAcknowledged, Outgoing
from feedback.kafka.producer import BatchProducer
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
