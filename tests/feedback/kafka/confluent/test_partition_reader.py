"""What a reader of partitions makes of librdkafka's messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from feedback.kafka.confluent import partition_reader
from feedback.kafka.confluent.partition_reader import ConfluentReader
from feedback.kafka.errors import KafkaFault
from feedback.kafka.partition_reader import ReadingPlan
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.confluent.librdkafka import PLACE, FakeAnew, FakeConsumer, FakeMessage

PLAN = ReadingPlan(65_536, 65_536, connect_s=1.0)


@pytest.fixture
def anew() -> FakeAnew:
    """Return what reads records anew."""
    return FakeAnew()


@pytest.fixture
def reader(anew: FakeAnew, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConfluentReader]:
    """Yield a reader of the fake consumer."""
    monkeypatch.setattr(partition_reader, "Consumer", FakeConsumer)
    made = ConfluentReader(KafkaSection(), PLAN, anew)  # type: ignore[arg-type]
    yield made
    made.close()


def test_a_record_that_cannot_be_read_anew_costs_none_behind_it(
    reader: ConfluentReader, anew: FakeAnew
) -> None:
    consumer: Any = reader._consumer
    consumer.logs[PLACE] = [FakeMessage(at, is_odd=at == 1) for at in range(4)]
    anew.answers = {1: KafkaFault("away")}
    reader.assign({PLACE: 0})
    assert [one.offset for one in reader.poll(0, max_records=9)] == [0]
    with pytest.raises(KafkaFault, match="away"):
        reader.poll(0, max_records=9)
    assert [one.offset for one in reader.poll(0, max_records=9)] == [1, 2, 3]
    assert reader.position(PLACE) == 4


def test_a_position_that_cannot_be_set_back_yet_costs_no_record(
    reader: ConfluentReader, anew: FakeAnew, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer: Any = reader._consumer
    consumer.logs[PLACE] = [FakeMessage(at, is_odd=at == 0) for at in range(3)]
    anew.answers = {0: KafkaFault("away")}
    reader.assign({PLACE: 0})
    with pytest.raises(KafkaFault, match="away"):
        reader.poll(0, max_records=1)

    def refuse(_: object) -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    with monkeypatch.context() as patch:
        patch.setattr(consumer, "seek", refuse)
        with pytest.raises(KafkaFault, match="_STATE"):
            reader.poll(0, max_records=9)
    assert [one.offset for one in reader.poll(0, max_records=9)] == [0, 1, 2]


def test_nothing_behind_a_corrupt_batch_is_handed_out_until_that_can_be_read(
    reader: ConfluentReader,
) -> None:
    consumer: Any = reader._consumer
    whole = [FakeMessage(at) for at in range(4)]
    corrupt = FakeMessage(1, error=KafkaError(KafkaError._BAD_MSG))
    consumer.logs[PLACE] = [whole[0], corrupt, *whole[2:]]
    reader.assign({PLACE: 0})
    assert [one.offset for one in reader.poll(0, max_records=9)] == [0]
    for _ in range(2):
        with pytest.raises(KafkaFault):
            reader.poll(0, max_records=9)
    consumer.logs[PLACE] = whole
    assert [one.offset for one in reader.poll(0, max_records=9)] == [1, 2, 3]
    # Else librdkafka would not look.
    assert consumer.properties["check.crcs"] is True


@pytest.mark.parametrize("kind", ["corrupt", "odd"])
def test_an_end_that_is_polled_behind_a_fault_is_not_reached(
    reader: ConfluentReader, anew: FakeAnew, kind: str
) -> None:
    consumer: Any = reader._consumer
    assert isinstance(consumer, FakeConsumer)
    corrupt = FakeMessage(12, error=KafkaError(KafkaError._BAD_MSG))
    consumer.logs[PLACE] = [
        *(FakeMessage(at) for at in (10, 11)),
        corrupt if kind == "corrupt" else FakeMessage(12, is_odd=True),
        *(FakeMessage(at) for at in (13, 14)),
        FakeMessage(15, error=KafkaError(KafkaError._PARTITION_EOF)),
    ]
    anew.answers = {12: KafkaFault("away")}
    reader.assign({PLACE: 10})
    assert [one.offset for one in reader.poll(0, max_records=9)] == [10, 11]
    # A scan ends where the position is that of the end.
    assert reader.position(PLACE) == 12
    with pytest.raises(KafkaFault):
        reader.poll(0, max_records=9)
    consumer.logs[PLACE][2] = FakeMessage(12)
    assert [one.offset for one in reader.poll(0, max_records=9)] == [12, 13, 14]
    assert reader.position(PLACE) == 15
