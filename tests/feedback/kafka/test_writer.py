"""Records that are written, and what is said of those that are not."""

import os
from collections.abc import Callable, Iterator

import pytest

from feedback.kafka.outgoing import NotAcknowledged, Outgoing, RecordRefused, RecordTooLarge
from feedback.kafka.reader import read_record
from feedback.kafka.writer import KafkaWriter
from feedback.records.envelope import NULL_HEADER
from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.grounds import Ground
from tests.left_open import left_open
from tests.rounds import in_time

TIMEOUT_S = 60.0


@pytest.fixture
def kafka(settings: KafkaSection) -> KafkaSection:
    return settings


@pytest.fixture
def writer(kafka: KafkaSection) -> Iterator[KafkaWriter]:
    # Of a batch that is refused each record goes again, alone: on a busy machine that takes long.
    made = KafkaWriter(kafka, timeout_s=60.0)
    yield made
    made.close()


def one(topic: str, partition: int | None = 0, **facts: object) -> Outgoing:
    known: dict[str, object] = {"key": b"k", "value": b"v", "headers": ()}
    return Outgoing(topic, partition, **known | facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(b"k", b"v", id="both"),
        pytest.param(None, b"v", id="null key"),
        pytest.param(b"k", None, id="tombstone"),
        pytest.param(None, None, id="tombstone with a null key"),
        pytest.param(b"", b"", id="both empty"),
        pytest.param(b"\xff\x00", os.urandom(100), id="any bytes"),
    ],
)
def test_key_value_and_headers_arrive_as_they_were_given(
    kafka: KafkaSection,
    writer: KafkaWriter,
    topic: Callable[..., str],
    key: bytes | None,
    value: bytes | None,
) -> None:
    name = topic(1)
    headers = (("h", b"1"), ("h", b""), ("naïve", b"\xff"))
    assert writer.write([one(name, key=key, value=value, headers=headers)]) == [None]
    found = read_record(kafka, name, 0, 0, TIMEOUT_S)
    assert found is not None
    assert (found.key, found.value, found.headers) == (key, value, headers)


def test_a_null_header_stays_null_when_its_record_is_written_on(
    ground: Ground, kafka: KafkaSection, writer: KafkaWriter, topic: Callable[..., str]
) -> None:
    name = topic(1)
    headers = (("null", NULL_HEADER), ("empty", b""))
    assert writer.write([one(name, headers=headers)]) == [None]
    found = read_record(kafka, name, 0, 0, TIMEOUT_S)
    assert found is not None
    assert found.headers == (("null", b""), ("empty", b""))
    kept = StoredPayload.decode(StoredPayload(name, b"k", b"v", found.headers).encode())
    assert writer.write([one(name, headers=found.headers), one(name, headers=kept.headers)]) == [
        None,
        None,
    ]
    assert ground.headers(name, 3) == [[("null", None), ("empty", b"")]] * 3


def test_a_record_goes_to_its_partition_and_where_there_is_none_to_any(
    kafka: KafkaSection, writer: KafkaWriter, topic: Callable[..., str]
) -> None:
    name = topic(2)
    assert writer.write([one(name, 1), one(name, 1), one(name, 7), one(name, None)]) == [None] * 4
    assert read_record(kafka, name, 1, 1, TIMEOUT_S) is not None


def test_one_that_is_too_large_is_told_apart_and_the_others_are_written(
    writer: KafkaWriter, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A refusal that comes late might be that of a second try, of which the first was stored.
    monkeypatch.setattr("feedback.kafka.confluent.producer_limits.FIRST_TRY_S", TIMEOUT_S)
    name = topic(1, configs={"max.message.bytes": "500"})
    sizes = (10, 1000, 20, 2_000_000, 30)
    said = writer.write([one(name, value=os.urandom(size)) for size in sizes])
    assert [type(error) for error in said] == [
        *(type(None), RecordTooLarge, type(None), RecordTooLarge, type(None)),
    ]


def test_what_compresses_may_be_larger_than_the_limit(
    writer: KafkaWriter, topic: Callable[..., str]
) -> None:
    assert writer.write([one(topic(1), value=b"x" * 3_000_000)]) == [None]


def test_a_topic_that_is_not_there_costs_one_wait_and_not_the_others(
    kafka: KafkaSection, topic: Callable[..., str]
) -> None:
    writer = KafkaWriter(kafka, timeout_s=1.0)
    name = topic(1)
    records = [one("nowhere"), one(name), one("nowhere"), one("no topic's name")]
    said = in_time(lambda: writer.write(records), limit_s=4.0)
    assert [type(error) for error in said] == [
        *(NotAcknowledged, type(None), NotAcknowledged, RecordRefused),
    ]
    assert said[0] is said[2]
    writer.close()


def test_without_a_broker_nothing_is_written_and_that_is_said_in_time(nobody: KafkaSection) -> None:
    with left_open():
        writer = KafkaWriter(nobody, timeout_s=1.0)
        said = in_time(lambda: writer.write([one("a"), one("a"), one("b")]), limit_s=6.0)
        assert [type(error) for error in said] == [NotAcknowledged] * 3
        writer.close()
