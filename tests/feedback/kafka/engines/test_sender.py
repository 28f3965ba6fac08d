"""A client's record and how its send ends, whatever broker takes it."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Callable, Iterator

import pytest
from kafka.admin import ACLOperation

from feedback.clock import monotonic_s
from feedback.kafka.durability import Durability
from feedback.kafka.scan import KafkaScan
from feedback.kafka.send_errors import (
    OutOfTime,
    RecordNotSent,
    RecordUnknown,
    SenderClosed,
    TopicAway,
    TopicForbidden,
    TopicUnknown,
    TopicUnsafe,
)
from feedback.kafka.senders import open_ordered_sender, open_sender, size_of_record
from feedback.kafka.sending import Coordinates
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.guarded import GuardedGround
from tests.feedback.kafka.engines.sends import (
    LIMIT_BYTES,
    ROADS,
    TIMEOUT_S,
    Road,
    RoadName,
    opened_road,
    values,
)

pytestmark = [pytest.mark.waits, pytest.mark.usefixtures("left_open")]

SAFE = Durability(is_idempotent=True)
# Nothing makes it smaller.
NOISE = random.Random(1).randbytes(3000)


@pytest.fixture(params=ROADS)
def name_of_road(request: pytest.FixtureRequest) -> RoadName:
    """Return a road's name."""
    name: RoadName = request.param
    return name


@pytest.fixture
def road(name_of_road: RoadName, settings: KafkaSection) -> Iterator[Road]:
    """Yield a road to the shared broker."""
    with opened_road(name_of_road, settings) as opened:
        yield opened


def test_what_is_acknowledged_is_there(
    road: Road, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name = topic(1)
    sent = [road.send(name, value, headers=[("h", b"1")]) for value in (b"1", b"2")]
    assert sent == [Coordinates(name, 0, 0), Coordinates(name, 0, 1)]
    assert values(settings, name) == [b"1", b"2"]


def test_a_topic_that_is_not_there_gets_nothing_and_is_not_made(
    road: Road, settings: KafkaSection
) -> None:
    missing = f"missing-{uuid.uuid4().hex}"
    # A task is told that the time is over, where a thread is told why.
    with pytest.raises(TopicAway):
        road.send(missing)
    with KafkaScan(settings) as scan:
        assert missing not in scan.topics()


def test_a_topic_that_is_not_there_is_told_as_unknown(settings: KafkaSection) -> None:
    with opened_road("threads", settings) as road, pytest.raises(TopicUnknown):
        road.send(f"missing-{uuid.uuid4().hex}")


def test_the_largest_record_is_sent_and_a_larger_one_is_not(
    road: Road, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name = topic(1)
    around = size_of_record(b"k", b"x" * 90_000, []) - 90_000
    largest = LIMIT_BYTES - around
    road.send(name, b"x" * largest)
    with pytest.raises(RecordNotSent, match=f"larger than {LIMIT_BYTES} bytes"):
        road.send(name, b"x" * (largest + 1))
    assert [len(one or b"") for one in values(settings, name)] == [largest]


def test_a_record_that_its_topic_refuses_is_not_sent(
    road: Road, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name = topic(1, configs={"max.message.bytes": "1000"})
    with pytest.raises(RecordNotSent, match="Kafka refused the record"):
        road.send(name, NOISE)
    road.send(name, b"small")
    assert values(settings, name) == [b"small"]


def test_the_refusal_that_an_idempotent_producer_is_told_is_of_no_certain_record(
    name_of_road: RoadName, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name = topic(1, configs={"max.message.bytes": "1000"})
    with opened_road(name_of_road, settings, durability=SAFE) as road:
        road.send(name, b"small")
        with pytest.raises(RecordUnknown):
            road.send(name, NOISE)
        road.send(name, b"small")


def test_a_topic_that_may_lose_records_gets_none(
    name_of_road: RoadName, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name, safe = topic(1), Durability(is_idempotent=True, min_insync=2)
    with (
        opened_road(name_of_road, settings, durability=safe) as road,
        pytest.raises(TopicUnsafe),
    ):
        road.send(name)
    assert values(settings, name) == []


@pytest.mark.parametrize("value", ["text", 5])
def test_what_is_not_of_bytes_is_not_sent(
    road: Road, topic: Callable[..., str], value: object
) -> None:
    with pytest.raises(RecordNotSent):
        road.send(topic(1), value)


def test_a_record_without_key_and_value_is_not_sent(road: Road, topic: Callable[..., str]) -> None:
    with pytest.raises(RecordNotSent):
        road.send(topic(1), None, key=None)


def test_a_name_that_no_topic_can_have_is_refused(road: Road) -> None:
    with pytest.raises(RecordNotSent):
        road.send("no topic")


def test_a_send_whose_time_is_over_hands_nothing_over(
    settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name = topic(1)
    with opened_road("threads", settings) as road, pytest.raises(OutOfTime):
        road.send(name, deadline_s=monotonic_s())
    assert values(settings, name) == []


def test_what_a_caller_s_function_raises_that_hears_of_an_end_fails_no_send(
    settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name = topic(1)
    sender = open_sender(settings, send_timeout_s=TIMEOUT_S, max_request_bytes=LIMIT_BYTES)
    told = threading.Event()
    for offset in range(3):
        pending = sender.send(name, key=b"k", value=b"v", headers=[])
        for tell in (_fail, told.set):
            pending.when_known(tell)
        assert pending.result() == Coordinates(name, 0, offset)
        # Its end is known: it is told at once.
        pending.when_known(_fail)
        assert told.wait(TIMEOUT_S)
        told.clear()
    sender.close()


def _fail() -> None:
    raise ZeroDivisionError("a caller's own fault")


def test_a_closed_sender_sends_nothing_more(
    road: Road, settings: KafkaSection, topic: Callable[..., str]
) -> None:
    name = topic(1)
    road.send(name)
    road.close()
    with pytest.raises(SenderClosed):
        road.send(name)
    assert values(settings, name) == [b"v"]


def test_a_broker_that_never_was_there_got_nothing(
    name_of_road: RoadName, nobody: KafkaSection
) -> None:
    with opened_road(name_of_road, nobody) as road, pytest.raises(TopicAway) as caught:
        road.send("topic")
    assert nobody.bootstrap_servers in str(caught.value)


@pytest.mark.parametrize("given", [(), (ACLOperation.DESCRIBE,)], ids=["nothing", "describe"])
def test_a_user_without_the_right_sends_nothing(
    name_of_road: RoadName, guarded: GuardedGround, given: tuple[ACLOperation, ...]
) -> None:
    name, allowed = guarded.topic(*given), guarded.topic(ACLOperation.WRITE)
    with opened_road(name_of_road, guarded.settings()) as road:
        with pytest.raises(TopicForbidden) as caught:
            road.send(name)
        assert caught.value.topic == name
        assert caught.value.fault is not None
        road.send(allowed)


def test_the_topics_that_take_nothing_are_told_each_with_its_reason(
    guarded: GuardedGround,
) -> None:
    takes, hidden = guarded.topic(ACLOperation.WRITE), guarded.topic()
    sender = open_ordered_sender(guarded.settings(), send_timeout_s=TIMEOUT_S)
    try:
        found = sender.look_up([takes, hidden, "no topic"])
        assert {topic: type(why) for topic, why in found.items()} == {
            hidden: TopicForbidden,
            "no topic": RecordNotSent,
        }
        assert sender.knows(takes) and not sender.knows(hidden)
        assert sender.look_up([takes]) == {}
    finally:
        sender.close()
