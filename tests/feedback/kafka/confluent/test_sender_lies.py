"""A client's words about its records, beside the records of a broker that lies."""

from __future__ import annotations

import os
import random
import threading
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from feedback.kafka.confluent.sender import ConfluentSender
from feedback.kafka.durability import FAST, PLAIN, Durability
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown
from feedback.kafka.sending import Coordinates, SendingPlan
from feedback.settings.settings import KafkaSection
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper
from onceward.servers.launch import launch
from onceward.servers.ports import HOST, free_port
from tests.feedback.kafka.confluent.lying_link import WEIGHTS, Lie, LyingLink
from tests.producer_client.records import records_of

pytestmark = pytest.mark.waits

SAFE = Durability(is_idempotent=True)
# Long enough for a second try of librdkafka.
TIMEOUT_S = 1.5
LIMIT_BYTES = 4000
THREADS = 6
RECORDS = int(os.environ.get("ONCEWARD_LIES", "25"))
BURST = 4

Word = Coordinates | RecordNotSent | RecordUnknown


@pytest.fixture(scope="module")
def link() -> Iterator[LyingLink]:
    """Yield the only way to a broker."""
    address = f"{HOST}:{free_port()}"
    with Keeper() as keeper, LyingLink(address) as made:
        port = int(address.rpartition(":")[2])
        launch(keeper, lambda: Broker(port=port, advertised=made.address))
        yield made


@pytest.mark.parametrize("durability", [PLAIN, SAFE, FAST], ids=["plain", "safe", "fast"])
def test_no_word_on_a_record_is_false_whatever_the_broker_says(
    link: LyingLink, durability: Durability
) -> None:
    topic, sender = _topic(link, 2), _sender(link, durability)
    words: dict[bytes, Word] = {}
    link.told.clear()
    link.answers.clear()
    link.weights = dict(WEIGHTS)
    try:
        threads = [
            threading.Thread(target=_send_on, args=[sender, topic, words, number])
            for number in range(THREADS)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        link.weights = {Lie.TRUE: 1}
        sender.close()
    stored = {(one.partition, one.offset): one.value for one in records_of(link.address, topic)}
    assert len(words) == THREADS * RECORDS
    kinds = Counter(type(word).__name__ for word in words.values())
    print(kinds, dict(link.told), len(stored))
    there = {*stored.values()}
    false = [one for one in words.items() if _is_false(one[1], one[0], stored, there)]
    for value, word in false:
        print(_evidence(value, word, stored, link))
    assert [word for _, word in false] == []
    # All that can be said was said, and all lies were told.
    assert {Coordinates, RecordUnknown} <= {type(one) for one in words.values()}
    if not durability.is_idempotent:
        assert RecordNotSent in {type(one) for one in words.values()}


def test_an_offset_is_a_lie_only_where_the_producer_has_heard_a_true_one(link: LyingLink) -> None:
    # Else it knows nothing by which it could tell, and the link itself would be the false word.
    topic = _topic(link, 1)
    link.weights = {Lie.TRUE: 1}
    words: list[Coordinates] = []
    for lie in (Lie.TRUE, Lie.LOW_OFFSET):
        sender = _sender(link, PLAIN)
        link.weights = {Lie.TRUE: 1}
        with pytest.raises(RecordNotSent):
            sender.send(topic, key=b"k", value=bytes(LIMIT_BYTES), headers=[]).result()
        for one in (lie, Lie.TRUE):
            link.weights = {one: 1}
            words.append(sender.send(topic, key=b"k", value=b"v", headers=[]).result())
        link.weights = {Lie.LOW_OFFSET: 1}
        with pytest.raises(RecordUnknown):
            sender.send(topic, key=b"k", value=b"v", headers=[]).result()
        link.weights = {Lie.TRUE: 1}
        sender.close()
    assert [one.offset for one in words] == [0, 1, 3, 4]


def _topic(link: LyingLink, partitions: int) -> str:
    name = f"lies-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=link.address) as admin:
        limit = {"max.message.bytes": str(LIMIT_BYTES)}
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=limit)])
        admin.wait_for_topics([name])
    return name


def _sender(link: LyingLink, durability: Durability) -> ConfluentSender:
    settings = KafkaSection(bootstrap_servers=link.address, client="confluent")
    return ConfluentSender(settings, SendingPlan(TIMEOUT_S, 100_000, durability))


def _is_false(
    word: Word, value: bytes, stored: dict[tuple[int, int], bytes | None], there: set[bytes | None]
) -> bool:
    if isinstance(word, Coordinates):
        return stored.get((word.partition, word.offset)) != value
    return isinstance(word, RecordNotSent) and value in there


def _evidence(
    value: bytes, word: Word, stored: dict[tuple[int, int], bytes | None], link: LyingLink
) -> str:
    """Return a false word, where its record is, and the answers that may have brought it about."""
    places = [place for place, one in stored.items() if one == value]
    told = [
        f"#{number} {one}"
        for number, one in enumerate(link.answers)
        if not isinstance(word, Coordinates) or one.partition == word.partition
    ]
    return "\n".join([f"{word!r} of {len(value)} bytes, which is at {places}", *told])


def _send_on(sender: ConfluentSender, topic: str, words: dict[bytes, Word], number: int) -> None:
    """Send records, some at a time, of which some are too large for their topic."""
    draw = random.Random(number)
    left = RECORDS
    while left:
        count = min(left, draw.randint(1, BURST))
        left -= count
        sizes = [LIMIT_BYTES * 2 if draw.random() < 0.06 else 50 for _ in range(count)]
        sent = []
        for value in map(draw.randbytes, sizes):
            try:
                pending = sender.send(topic, key=b"%d" % number, value=value, headers=[])
            except RecordNotSent as error:
                words[value] = error
            else:
                sent.append((value, pending))
        for value, pending in sent:
            try:
                words[value] = pending.result()
            except (RecordNotSent, RecordUnknown) as error:
                words[value] = error
