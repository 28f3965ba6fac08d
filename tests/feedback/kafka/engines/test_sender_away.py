"""How a client's send ends when the broker fails: certainly not sent, or unknown."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from feedback.kafka.send_errors import RecordUnknown, TopicAway
from feedback.kafka.senders import open_ordered_sender
from feedback.kafka.sending import OrderedSender
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S
from tests.feedback.kafka.engines.sends import ROADS, TIMEOUT_S, Road, opened_road, values
from tests.rounds import in_time

pytestmark = [pytest.mark.waits, pytest.mark.usefixtures("left_open")]

SLACK_S = 15.0


@pytest.fixture
def where(mortal_settings: KafkaSection) -> KafkaSection:
    """Return settings for a broker that may fail."""
    return mortal_settings


@pytest.fixture(params=ROADS)
def road(request: pytest.FixtureRequest, where: KafkaSection) -> Iterator[Road]:
    """Yield a road to that broker."""
    with opened_road(request.param, where) as opened:
        yield opened


@pytest.fixture
def ordered(where: KafkaSection) -> Iterator[OrderedSender]:
    """Yield the sender of an outbox."""
    sender = open_ordered_sender(where, send_timeout_s=TIMEOUT_S)
    yield sender
    sender.close(1.0)


def _is_sent(road: Road, topic: str, value: bytes) -> bool:
    try:
        road.send(topic, value)
    except (RecordUnknown, TopicAway):
        return False
    return True


def _ends_unknown(road: Road, topic: str, value: bytes) -> None:
    def send() -> None:
        with pytest.raises(RecordUnknown):
            road.send(topic, value)

    in_time(send, limit_s=TIMEOUT_S + SLACK_S)


def test_what_a_dead_broker_did_not_acknowledge_is_unknown(
    mortal: Ground, where: KafkaSection, road: Road, name: str
) -> None:
    road.send(name, b"before")
    with mortal.down():
        _ends_unknown(road, name, b"meanwhile")
    eventually(lambda: _is_sent(road, name, b"after"), timeout_s=LIMIT_S)
    found = values(where, name)
    assert found[0] == b"before" and b"after" in found


def test_what_a_broker_that_stands_still_did_not_acknowledge_is_unknown(
    mortal: Ground, where: KafkaSection, road: Road, name: str
) -> None:
    road.send(name, b"before")
    with mortal.paused():
        _ends_unknown(road, name, b"meanwhile")
    eventually(lambda: _is_sent(road, name, b"after"), timeout_s=LIMIT_S)
    found = values(where, name)
    assert found[0] == b"before" and b"after" in found


def test_a_topic_that_was_not_known_before_certainly_got_nothing(
    mortal: Ground, where: KafkaSection, road: Road, name: str
) -> None:
    other = f"other-{uuid.uuid4().hex}"
    mortal.make_topic(other, 1)
    road.send(name, b"before")
    with mortal.paused(), pytest.raises(TopicAway):
        road.send(other)
    eventually(lambda: _is_sent(road, other, b"after"), timeout_s=LIMIT_S)
    assert {*values(where, other)} == {b"after"}


def test_a_broker_that_was_dead_at_the_first_send_certainly_got_nothing(
    mortal: Ground, where: KafkaSection, road: Road, name: str
) -> None:
    with mortal.down(), pytest.raises(TopicAway):
        road.send(name)
    eventually(lambda: _is_sent(road, name, b"after"), timeout_s=LIMIT_S)
    assert {*values(where, name)} == {b"after"}


def test_closing_is_bounded_while_a_record_is_under_way(
    mortal: Ground, where: KafkaSection, ordered: OrderedSender, name: str
) -> None:
    ordered.send(name, key=b"k", value=b"before", headers=[]).result()
    with mortal.paused():
        ordered.send(name, key=b"k", value=b"v", headers=[])
        in_time(lambda: ordered.close(1.0), limit_s=1.0 + SLACK_S)


def test_an_outbox_keeps_the_order_of_what_a_dead_broker_did_not_take(
    mortal: Ground, where: KafkaSection, ordered: OrderedSender, name: str
) -> None:
    first = ordered.send(name, key=b"k", value=b"0", headers=[])
    first.result()
    with mortal.down():
        sent = [ordered.send(name, key=b"k", value=b"%d" % n, headers=[]) for n in (1, 2, 3)]
        assert not sent[-1].is_settled(0.1)
    eventually(lambda: sent[-1].is_settled(0.1), timeout_s=LIMIT_S)
    assert values(where, name) == [b"0", b"1", b"2", b"3"]


def test_what_an_outbox_has_abandoned_does_not_go_out_later(
    mortal: Ground, where: KafkaSection, ordered: OrderedSender, name: str
) -> None:
    ordered.send(name, key=b"k", value=b"before", headers=[]).result()
    with mortal.down():
        lost = ordered.send(name, key=b"k", value=b"abandoned", headers=[])
        ordered.abandon()
        with pytest.raises(RecordUnknown):
            lost.result()
        assert {*ordered.look_up([name])} == {name}
    eventually(lambda: not ordered.look_up([name]), timeout_s=LIMIT_S)
    ordered.send(name, key=b"k", value=b"after", headers=[]).result()
    assert values(where, name) == [b"before", b"after"]
