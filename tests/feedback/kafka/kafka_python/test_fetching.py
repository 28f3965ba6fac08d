"""What kafka-python makes of records that it cannot read, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.consumer.fetcher import CompletedFetch, Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.errors import CorruptRecordError, KafkaError, UnsupportedCodecError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from feedback.kafka.kafka_python import fetching

PLACE, NEIGHBOUR = TopicPartition("t", 0), TopicPartition("t", 1)
CORRUPT_MESSAGE = 2


class Fetched:
    """A fetcher to which a test gives the answers of brokers."""

    def __init__(self) -> None:
        self.places = SubscriptionState()
        self.places.assign_from_user([PLACE, NEIGHBOUR])
        client = SimpleNamespace(_manager=SimpleNamespace(_net=None))
        self._fetcher: Any = Fetcher(client, self.places)
        fetching.mend(SimpleNamespace(_fetcher=self._fetcher))
        for one in (PLACE, NEIGHBOUR):
            self.places.seek(one, 0)

    def answer(self, *batches: bytes, place: TopicPartition = PLACE, error_code: int = 0) -> None:
        """Answer a fetch from where the partition is."""
        of_partition = SimpleNamespace(
            error_code=error_code,
            high_watermark=9,
            records=b"".join(batches),
            aborted_transactions=None,
            diverging_epoch=None,
            preferred_read_replica=-1,
        )
        at = self.places.position(place).offset
        self._fetcher._completed_fetches.append(CompletedFetch(place, at, 12, of_partition, None))

    def read(self) -> list[tuple[int, int]]:
        """Return the partition and offset of all records that a poll gives."""
        records, _ = self._fetcher.fetched_records(500)
        return [(one.partition, one.offset) for some in records.values() for one in some]

    def is_fetched_again(self, place: TopicPartition = PLACE) -> bool:
        """Whether a poll would ask for more of it."""
        return place in self._fetcher._fetchable_partitions()


@pytest.fixture
def fetched() -> Fetched:
    """Return a fetcher."""
    return Fetched()


def batch(offset: int, *, is_corrupt: bool = False, compression: int = 0) -> bytes:
    """Return a batch of two records."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**6,
    )
    for number in range(2):
        builder.append(number, 1_000, None, bytes(40), [])
    made = bytearray(builder.build())
    made[:8] = offset.to_bytes(8, "big")
    if is_corrupt:
        made[-3] ^= 0xFF
    return bytes(made)


def test_a_corrupt_batch_is_named_each_time_and_fetched_again(fetched: Fetched) -> None:
    fetched.answer(batch(0), batch(2, is_corrupt=True), batch(4))
    assert fetched.read() == [(0, 0), (0, 1)]
    for _ in range(2):
        with pytest.raises(CorruptRecordError) as caught:
            fetched.read()
        assert PLACE in caught.value.args
        assert (fetched.read(), fetched.is_fetched_again()) == ([], True)
        assert fetched.places.position(PLACE).offset == 2
        fetched.answer(batch(2, is_corrupt=True), batch(4))
    with pytest.raises(CorruptRecordError):
        fetched.read()
    fetched.answer(batch(2), batch(4))
    assert fetched.read() == [(0, offset) for offset in range(2, 6)]


def test_a_neighbour_is_read_beside_it(fetched: Fetched) -> None:
    fetched.answer(batch(0, is_corrupt=True))
    fetched.answer(batch(0), place=NEIGHBOUR)
    with pytest.raises(CorruptRecordError):
        fetched.read()
    fetched.places.pause(PLACE)
    assert fetched.read() == [(1, 0), (1, 1)]
    fetched.places.resume(PLACE)
    fetched.answer(batch(0))
    assert fetched.read() == [(0, 0), (0, 1)]


def test_a_batch_that_cannot_be_unpacked_is_named_and_fetched_again(
    fetched: Fetched, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UnsupportedCodecError("Libraries for zstd compression codec not found")

    zipped = batch(0, compression=DefaultRecordBatch.CODEC_GZIP)
    with monkeypatch.context() as patch:
        patch.setattr(DefaultRecordBatch, "_assert_has_codec", refuse)
        fetched.answer(zipped)
        with pytest.raises(UnsupportedCodecError) as caught:
            fetched.read()
    assert PLACE in caught.value.args
    assert (fetched.read(), fetched.is_fetched_again()) == ([], True)
    fetched.answer(zipped)
    assert fetched.read() == [(0, 0), (0, 1)]


def test_a_batch_whose_length_is_corrupt_is_named(fetched: Fetched) -> None:
    short = bytearray(batch(0))
    short[8:12] = (20).to_bytes(4, "big")
    fetched.answer(bytes(short), batch(2))
    with pytest.raises(CorruptRecordError) as caught:
        fetched.read()
    assert PLACE in caught.value.args
    assert (fetched.read(), fetched.is_fetched_again()) == ([], True)
    fetched.answer(batch(0))
    assert fetched.read() == [(0, 0), (0, 1)]


def test_what_a_broker_calls_corrupt_is_named(fetched: Fetched) -> None:
    fetched.answer(error_code=CORRUPT_MESSAGE)
    with pytest.raises(KafkaError) as caught:
        fetched.read()
    assert PLACE in caught.value.args
    assert fetched.is_fetched_again()
