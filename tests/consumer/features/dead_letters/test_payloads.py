"""Where the record of a failure comes from, and when it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kafka import KafkaProducer

from consumer.features.dead_letters.letter_writer import RowPayloads
from consumer.journal.records import Row
from feedback.errors import RedisUnavailable
from feedback.kafka.reader import RecordReader
from feedback.records.stored_payload import StoredPayload
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import KafkaSection, RedisSection
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.consumer.features.dead_letters.samples import failed
from tests.consumer.samples import KEY, SHA, TIMESTAMP_MS, VALUE
from tests.stack import Servers

HEADERS = [("h", b"sent"), ("h", b"")]


@pytest.fixture
def store(redis_url: str, group: str) -> Iterator[StatusStore]:
    settings = RedisSection(url=redis_url)
    store = StatusStore(connect(settings), group, settings)
    yield store
    store.close()


@pytest.fixture
def sent(servers: Servers, topic: Callable[..., str]) -> Row:
    """Return the row of a failed request whose record is in Kafka."""
    name = topic(1)
    producer = KafkaProducer(bootstrap_servers=servers.kafka)
    stored = producer.send(
        name, key=KEY, value=VALUE, headers=HEADERS, timestamp_ms=TIMESTAMP_MS
    ).get(timeout=60)
    producer.close()
    return failed(topic=name, partition=0, offset=stored.offset, payload_sha256=SHA)


@pytest.fixture
def payloads(servers: Servers, store: StatusStore) -> Iterator[Callable[..., RowPayloads]]:
    """Yield a factory `payloads(away=False)`."""
    reader = RecordReader(KafkaSection(bootstrap_servers=servers.kafka))
    yield lambda away=False: RowPayloads(reader=reader, store=store, redis_away=lambda: away)
    reader.close()


def keep(store: StatusStore, row: Row) -> None:
    kept = StoredPayload(row.topic, KEY, VALUE, (("h", b"kept"),))
    store.write([StatusWrite(row.request_id, State.PENDING, 1, 0, SHA, {}, payload=kept)])


def test_the_record_comes_first_with_the_headers_and_the_time_it_was_sent_with(
    payloads: Callable[..., RowPayloads], store: StatusStore, sent: Row
) -> None:
    keep(store, sent)
    found = payloads().of(sent)
    assert found is not None
    assert (found.timestamp_ms, found.headers) == (TIMESTAMP_MS, tuple(HEADERS))
    assert (found.key, found.value, found.offset) == (KEY, VALUE, sent.offset)


def test_without_the_record_what_its_client_kept_is_taken_which_has_no_time(
    payloads: Callable[..., RowPayloads], store: StatusStore, sent: Row
) -> None:
    keep(store, sent)
    found = payloads().of(sent._replace(offset=99))
    assert found is not None
    assert (found.timestamp_ms, found.headers, found.value) == (-1, (("h", b"kept"),), VALUE)


def test_it_is_gone_only_when_both_say_so(
    payloads: Callable[..., RowPayloads], store: StatusStore, sent: Row
) -> None:
    assert payloads().of(sent._replace(offset=99)) is None
    with pytest.raises(RedisUnavailable):
        payloads(away=True).of(sent._replace(offset=99))
    assert payloads(away=True).of(sent) is not None


def test_another_payload_at_its_place_is_not_its_own(
    payloads: Callable[..., RowPayloads], store: StatusStore, sent: Row
) -> None:
    keep(store, sent)
    assert payloads().of(sent._replace(payload_sha256="0" * 64)) is None


def test_what_no_client_of_ours_has_kept_is_none(
    payloads: Callable[..., RowPayloads], store: StatusStore, sent: Row
) -> None:
    store.redis.set(store.payload_key(sent.request_id), b"\xff not what a client keeps")
    assert payloads().of(sent._replace(offset=99)) is None
