"""What a client is told of records that wait in its sender while their topic is deleted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from feedback.kafka.durability import FAST, PLAIN, Durability
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown, TopicAway
from feedback.kafka.senders import open_sender
from feedback.kafka.sending import Coordinates, KafkaSender
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch
from onceward.servers.ports import HOST, free_port
from tests.eventually import eventually
from tests.feedback.kafka.confluent.lying_link import Lie, LyingLink
from tests.feedback.kafka.engines.grounds import settings_at
from tests.producer_client.records import records_of
from tests.rounds import in_time

pytestmark = [pytest.mark.waits, pytest.mark.usefixtures("left_open")]

SAFE = Durability(is_idempotent=True)
# A topic is read, deleted and made anew meanwhile, on a busy machine too.
TIMEOUT_S = 8.0
SLACK_S = 15.0
LIMIT_BYTES = 100_000
WAITING = [b"%d" % number for number in range(2, 6)]
KAFKA_PYTHON = "kafka-python"
Word = Coordinates | RecordNotSent | RecordUnknown
Places = dict[tuple[int, int], bytes | None]


@pytest.fixture(scope="module")
def link() -> Iterator[LyingLink]:
    """Yield the only way to a broker."""
    address = f"{HOST}:{free_port()}"
    with Keeper() as keeper, LyingLink(address) as made:
        port = int(address.rpartition(":")[2])
        launch(keeper, lambda: Broker(port=port, advertised=made.address))
        yield made


@pytest.fixture
def topic(link: LyingLink) -> str:
    """Return a topic of that broker, with one partition."""
    name = f"gone-{uuid.uuid4().hex}"
    _make(link, name)
    return name


@pytest.fixture(
    params=[
        pytest.param(PLAIN, id="plain"),
        pytest.param(SAFE, id="safe", marks=pytest.mark.long),
        pytest.param(FAST, id="fast", marks=pytest.mark.long),
    ]
)
def sender(
    request: pytest.FixtureRequest, link: LyingLink, engine: str, group: str
) -> Iterator[KafkaSender]:
    """Yield a sender that goes through the link."""
    opened = open_sender(
        settings_at(link.address, engine, group),
        send_timeout_s=TIMEOUT_S,
        max_request_bytes=LIMIT_BYTES,
        durability=request.param,
    )
    link.weights = {Lie.TRUE: 1}
    link.holds.clear()
    link.free.clear()
    link.lapsed.clear()
    yield opened
    link.free.set()
    opened.close()


@pytest.mark.parametrize("made_anew", ["never", "before", "after"])
@pytest.mark.parametrize("held", [Lie.REQUEST_HELD, Lie.ANSWER_HELD], ids=["asked", "answered"])
def test_no_word_is_false_on_records_that_wait_while_their_topic_is_deleted(
    link: LyingLink, sender: KafkaSender, engine: str, topic: str, held: Lie, made_anew: str
) -> None:
    words: dict[bytes, Word] = {b"0": _word(sender, topic, b"0")}
    assert isinstance(words[b"0"], Coordinates)
    link.weights = {held: 1}
    pending = {b"1": _sent(sender, topic, b"1")}
    assert link.holds.wait(TIMEOUT_S)
    link.weights = {Lie.TRUE: 1}
    pending |= {value: _sent(sender, topic, value) for value in WAITING}
    # What is held as a request is not stored, and nothing behind it is.
    stored = [b"0"] if held is Lie.REQUEST_HELD else [b"0", b"1"]
    before = _places_of(stored, link, topic)
    _delete(link, topic)
    if made_anew == "before":
        _make(link, topic)
    link.free.set()
    assert not link.lapsed.is_set(), "it was held no longer before its topic was deleted"
    if made_anew == "after":
        _make(link, topic)

    def hear() -> None:
        words.update({value: _end_of(one) for value, one in pending.items()})

    in_time(hear, limit_s=TIMEOUT_S + SLACK_S, rounds=1)
    # Whatever it was told before, the sender finds out, and goes on.
    is_there = made_anew != "never"
    if held is Lie.ANSWER_HELD or (is_there and engine == KAFKA_PYTHON):
        # A word that nothing can prove false, of all of them, would judge nobody.
        assert any(isinstance(words[value], Coordinates) for value in pending)
    _send_until(Coordinates if is_there else TopicAway, sender, topic, words)
    sender.close()
    # Nothing goes out any more: this is all that ever gets into the topic.
    now = _places(link, topic) if is_there else {}
    print({value: type(word).__name__ for value, word in words.items()}, before, now)
    assert not [value for value, word in words.items() if _is_false(value, word, before, now)]


def _is_false(value: bytes, word: Word, before: Places, now: Places) -> bool:
    if isinstance(word, Coordinates):
        place = (word.partition, word.offset)
        return value not in {before.get(place), now.get(place)}
    return isinstance(word, RecordNotSent) and value in {*before.values(), *now.values()}


def _send_until(
    kind: type[Word], sender: KafkaSender, topic: str, words: dict[bytes, Word]
) -> None:
    """Send until a record ends so."""

    def has_ended_so() -> bool:
        value = uuid.uuid4().hex.encode()
        words[value] = _word(sender, topic, value)
        return isinstance(words[value], kind)

    eventually(has_ended_so)


def _sent(sender: KafkaSender, topic: str, value: bytes) -> Any:
    return sender.send(topic, key=b"k", value=value, headers=[])


def _end_of(pending: Any) -> Word:
    try:
        end: Coordinates = pending.result()
    except (RecordNotSent, RecordUnknown) as error:
        return error
    return end


def _word(sender: KafkaSender, topic: str, value: bytes) -> Word:
    try:
        return _end_of(_sent(sender, topic, value))
    except RecordNotSent as error:
        return error


def _places(link: LyingLink, topic: str) -> Places:
    return {(one.partition, one.offset): one.value for one in records_of(link.address, topic)}


def _places_of(values: list[bytes], link: LyingLink, topic: str) -> Places:
    """Return the places of all records of a topic, once it has these."""

    def found() -> Places:
        places = _places(link, topic)
        return places if [*places.values()] == values else {}

    return eventually(found)


def _make(link: LyingLink, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=link.address) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        admin.wait_for_topics([topic])


def _delete(link: LyingLink, topic: str) -> None:
    with KafkaAdminClient(bootstrap_servers=link.address) as admin:
        admin.delete_topics([topic])
        eventually(lambda: topic not in admin.list_topics())
