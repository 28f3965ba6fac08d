"""Where the payload of a dead worker's request comes from, and when it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer
from redis import Redis

from consumer.handlers.declaration import Handler
from consumer.journal import Row
from consumer.loop.payload_lookup import PayloadLookup
from feedback.errors import RedisUnavailable
from feedback.records.stored_payload import StoredPayload
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import KafkaSection, RedisSection
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.consumer.samples import KEY, SHA, VALUE, row
from tests.stack import Servers


@pytest.fixture
def store(redis_url: str, group: str) -> Iterator[StatusStore]:
    settings = RedisSection(url=redis_url)
    store = StatusStore(connect(settings), group, settings)
    yield store
    store.close()


@pytest.fixture
def dead(servers: Servers, topic: Callable[..., str]) -> Row:
    """Return the row of a request whose record is in Kafka."""
    name = topic(1)
    producer = KafkaProducer(bootstrap_servers=servers.kafka)
    stored = producer.send(name, key=KEY, value=VALUE).get(timeout=60)
    producer.close()
    return row("a", "CLAIMED", topic=name, partition=0, offset=stored.offset, payload_sha256=SHA)


def revival(
    store: StatusStore, servers: Servers, topic: str, *, away: bool = False
) -> PayloadLookup:
    handler = Handler(function=print, topic=topic, name="m:f")
    kafka = KafkaSection(bootstrap_servers=servers.kafka)
    return PayloadLookup(
        store=store, kafka=kafka, handlers={topic: handler}, redis_away=lambda: away
    )


def keep(store: StatusStore, topic: str) -> None:
    kept = StoredPayload(topic, KEY, VALUE, (("h", b"kept"),))
    store.write([StatusWrite("a", State.PENDING, 1, 0, SHA, {}, payload=kept)])


def test_a_kept_payload_comes_first(store: StatusStore, servers: Servers, dead: Row) -> None:
    keep(store, dead.topic)
    found = revival(store, servers, dead.topic).of(dead)
    assert found is not None and found.record.headers == (("h", b"kept"),)
    assert (found.record.key, found.record.value, found.request_id) == (KEY, VALUE, "a")


def test_without_one_or_with_one_that_is_none_the_record_is_read_again(
    store: StatusStore, servers: Servers, dead: Row, redis_url: str
) -> None:
    again = revival(store, servers, dead.topic)
    for _ in range(2):
        found = again.of(dead)
        assert found is not None and (found.record.value, found.record.headers) == (VALUE, ())
        Redis.from_url(redis_url).set(store.payload_key("a"), b"\xff not what a client keeps")


def test_it_is_gone_only_when_both_say_so(store: StatusStore, servers: Servers, dead: Row) -> None:
    beyond = dead._replace(offset=99)
    assert revival(store, servers, dead.topic).of(beyond) is None
    with pytest.raises(RedisUnavailable):
        revival(store, servers, dead.topic, away=True).of(beyond)
    assert revival(store, servers, dead.topic, away=True).of(dead) is not None


def test_another_payload_at_its_place_is_not_its_own(
    store: StatusStore, servers: Servers, dead: Row
) -> None:
    assert revival(store, servers, dead.topic).of(dead._replace(payload_sha256="0" * 64)) is None
