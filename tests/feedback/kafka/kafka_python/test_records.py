"""Records are read as kafka-python reads them, and those that it stumbles over as well."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from feedback.kafka.kafka_python import records as kafka_records

SHORT = st.one_of(st.none(), st.binary(max_size=200))
HEADERS = st.lists(st.tuples(st.text(max_size=100), SHORT), max_size=8)
GZIP = 1
RECORDS = st.lists(st.tuples(SHORT, SHORT, HEADERS), min_size=1, max_size=5)


def batch_of(records: list[tuple[bytes | None, bytes | None, list[Any]]], kind: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=kind,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**9,
    )
    for offset, (key, value, headers) in enumerate(records):
        builder.append(offset, 1_000 + offset, key, value, headers)
    return bytes(builder.build())


def as_it_is(record: Any) -> tuple[Any, ...]:
    facts = record.offset, record.timestamp, record.timestamp_type, record.key, record.value
    return (*facts, record.size_in_bytes, [tuple(one) for one in record.headers])


def read(raw: bytes) -> list[tuple[Any, ...]]:
    batch = MemoryRecords(raw).next_batch()
    assert type(batch) is not DefaultRecordBatch, kafka_records.__name__
    return [as_it_is(one) for one in batch]


@given(records=RECORDS, kind=st.sampled_from([0, 1]))
def test_what_kafka_python_reads_is_read_the_same_way(
    records: list[tuple[bytes | None, bytes | None, list[Any]]], kind: int
) -> None:
    raw = batch_of(records, kind)
    assert read(raw) == [as_it_is(one) for one in DefaultRecordBatch(raw)]


def test_a_header_whose_name_is_not_utf8_is_read_all_the_same() -> None:
    raw = batch_of([(b"k", b"v", [("name", b"1"), ("after", None)])])
    broken = raw.replace(b"name", b"na\xffe")
    ((*_, headers),) = read(broken)
    assert headers == [("na\ufffde", b"1"), ("after", None)]


@pytest.mark.parametrize("length", [0x7E, 0x00, 0x01, 0x0C])
def test_a_record_that_is_not_as_long_as_it_says_is_corrupt(length: int) -> None:
    raw = bytearray(batch_of([(b"k", b"v", [("name", b"1")])]))
    place = raw.index(b"name") - 1
    raw[place] = length
    with pytest.raises(CorruptRecordError):
        read(bytes(raw))


WORDS = ("the", "bank", "has", "no", "such", "account", "and", "card", "of", "you")
# Few words in an order that nobody can guess: the levels of gzip differ by them.
TEXT = " ".join(Random(7).choices(WORDS, k=4000))


@pytest.mark.parametrize("copies", [1, 2, 50])
def test_what_our_producer_compresses_kafka_python_reads_as_it_was_given(copies: int) -> None:
    value = TEXT.encode()
    raw = compressed([value] * copies)
    assert [one.value for one in DefaultRecordBatch(raw)] == [value] * copies
    assert len(raw) < copies * len(value) / 4


def test_what_gzip_cannot_shorten_is_sent_as_it_is() -> None:
    value = Random(7).randbytes(1000)
    assert value in compressed([value])


def test_a_record_alone_in_its_batch_is_as_small_as_kafka_pythons_gzip_makes_it() -> None:
    assert len(compressed([TEXT.encode()])) == len(batch_of([(None, TEXT.encode(), [])], GZIP))
    several = [TEXT.encode(), TEXT[::-1].encode()]
    assert len(compressed(several)) > len(batch_of([(None, one, []) for one in several], GZIP))


def compressed(values: list[bytes]) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=GZIP, batch_size=10**9)
    for value in values:
        builder.append(1_000, None, value)
    builder.close()
    return bytes(builder.buffer())
