"""The columns of a record against the worker's own reading of it, over every hostile header."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from feedback.errors import InvalidMessage
from feedback.records.envelope import (
    ATTEMPT,
    DEADLINE,
    GROUP,
    OUTCOME_ID,
    REOPENS,
    REQUEST_ID,
    Record,
    decode_headers,
    payload_sha256,
)
from spark_audit.stage import record_columns
from spark_audit.stage.record_columns import RecordHeaders

Header = tuple[str, bytes | None]
# The columns of `with_envelope`.
ENVELOPE = (
    *("request_id", "attempt", "deadline_at", "reopens", "is_malformed", "is_outcome", "is_named"),
)

IDS = (
    b"a",
    b"",
    b"x" * 128,
    b"x" * 129,
    b" ",
    b"a b",
    b"a\n",
    b"\na",
    b"a\r",
    b"a\x00",
    b"\x7f",
    b"!~",
    b"<b>'\"\\;--</b>",
    "ä".encode(),
    "\u2028".encode(),
    b"\xff\xfe",
    b"a\xc3",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbfa",
)
NUMBERS = (
    b"1",
    b"0",
    b"-1",
    b"+1",
    b"007",
    b"",
    b" 1",
    b"1 ",
    b"1\n",
    b"1.0",
    b"1e3",
    b"0x1",
    b"1_0",
    b"2147483647",
    b"2147483648",
    b"000000000000001",
    b"0000000000000001",
    b"999999999999999",
    b"1000000000000000",
    b"253402300799999",
    b"253402300800000",
    b"99999999999999999999999999",
    "\u0661".encode(),  # digits of other scripts
    "\uff11".encode(),
    b"\xff",
    b"NaN",
)
PARTS = (None, b"", b"\x00", b"a", b"ab", bytes(range(256)), b"x" * 70_000, "ä".encode())
SCHEMA = (
    "number int, topic string, partition int, offset long, timestamp_ms long, "
    "key binary, value binary, headers array<struct<key:string,value:binary>>"
)


def hostile_headers() -> list[tuple[Header, ...]]:
    """Return arrays of headers: each fault alone, repeated, among others, and in pairs."""
    values: list[tuple[str, bytes | None]] = [
        *((REQUEST_ID, value) for value in IDS),
        *((ATTEMPT, value) for value in NUMBERS),
        *((DEADLINE, value) for value in NUMBERS),
        *((REOPENS, value) for value in NUMBERS),
        *((GROUP, value) for value in (b"mine", b"another's", b"", b"\xff")),
        *((OUTCOME_ID, value) for value in IDS),
        (REQUEST_ID, None),
        (ATTEMPT, None),
        (DEADLINE, None),
        (REOPENS, None),
        (GROUP, None),
        (OUTCOME_ID, None),
    ]
    alone = [(one,) for one in values]
    others: tuple[Header, ...] = (
        ("traceparent", b"\xff"),
        (REQUEST_ID.upper(), b""),
        (f"{ATTEMPT} ", b"x"),
        ("", b""),
        ("ä\ufffd", None),
    )
    among = [(others[0], one, *others[1:]) for one in values]
    twice = [(one, one) for one in values]
    good = ((REQUEST_ID, b"id-1"), (ATTEMPT, b"3"), (DEADLINE, b"1700000000000"))
    orders: list[tuple[Header, ...]] = [*itertools.permutations(good)]
    replaced = [(*(one for one in good if one[0] != bad[0]), bad) for bad in values]
    outcome = (OUTCOME_ID, b"id-1.outcome.1")
    resend = ((REOPENS, b"2"), (ATTEMPT, b"2"))
    of_groups = [(*resend, (GROUP, value)) for value in (b"mine", b"another's")]
    of_outcomes = [(*one, outcome) for one in (*alone, *twice)]
    return [(), others, *alone, *among, *twice, *orders, *replaced, *of_outcomes, *of_groups]


def expected(record: Record) -> tuple[str, int, int | None, int | None, bool, str]:
    """Return what the worker makes of a record."""
    digest = payload_sha256(record.key, record.value)
    try:
        found = decode_headers(record, group="mine")
    except InvalidMessage:
        return record.coordinates_id, 1, None, None, True, digest
    return found.request_id, found.attempt, found.deadline_at, found.reopens, False, digest


def headers_of_a_frame() -> RecordHeaders:
    """Return the column `headers` as it is read."""
    return RecordHeaders(F.col("headers.key"), F.col("headers.value"))


def read(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> list[Row]:
    """Return the columns of these rows of `SCHEMA`, in their order."""
    columns = {
        "payload_sha256": record_columns.payload_sha256(F.col("key"), F.col("value")),
        "coordinates": record_columns.coordinates_id(
            F.col("topic"), F.col("partition"), F.col("offset"), F.col("timestamp_ms")
        ),
    }
    ours = record_columns.header_columns(headers_of_a_frame())
    frame = record_columns.with_envelope(
        spark.createDataFrame(list(rows), SCHEMA).withColumns(ours), "mine"
    )
    frame = frame.withColumns(columns)
    return frame.select("number", *ENVELOPE, *columns).orderBy("number").collect()


def compare(spark: SparkSession, records: Sequence[Record]) -> None:
    """Assert that every record is read as the worker reads it."""
    rows = []
    for number, record in enumerate(records):
        headers = [*record.headers] or None
        rows.append((number, *record[:6], headers))
    found = read(spark, rows)
    assert len(found) == len(records)
    for record, row in zip(records, found, strict=True):
        values = (row.request_id, row.attempt, row.deadline_at, row.reopens, row.is_malformed)
        assert (*values, row.payload_sha256) == expected(record), record.headers
        assert row.coordinates == record.coordinates_id


def record(
    headers: tuple[Header, ...] = (),
    *,
    topic: str = "payments",
    partition: int = 0,
    offset: int = 7,
    timestamp_ms: int = 1_772_366_400_123,
    key: bytes | None = None,
    value: bytes | None = b"{}",
) -> Record:
    """Return a record as a worker gets it: a header without a value is an empty one."""
    given = tuple((name, one or b"") for name, one in headers)
    return Record(topic, partition, offset, timestamp_ms, key, value, given)


def test_every_hostile_header_is_read_as_the_worker_reads_it(spark: SparkSession) -> None:
    records = [record(headers) for headers in hostile_headers()]
    assert len({expected(one)[4] for one in records}) == 2
    compare(spark, records)


def test_a_header_without_a_value_is_an_empty_one(spark: SparkSession) -> None:
    names = (REQUEST_ID, ATTEMPT, DEADLINE, REOPENS, OUTCOME_ID)
    rows = [(number, "t", 0, 1, 2, None, None, [(name, None)]) for number, name in enumerate(names)]
    assert [row.is_malformed for row in read(spark, rows)] == [True] * len(names)


def test_every_pair_of_key_and_value_has_the_digest_of_the_contract(spark: SparkSession) -> None:
    records = [record(key=key, value=value) for key in PARTS for value in PARTS]
    assert len({expected(one)[5] for one in records}) == len(records)
    compare(spark, records)


def test_a_record_without_an_id_is_named_by_where_it_stands(spark: SparkSession) -> None:
    compare(
        spark,
        [
            record(topic=topic, partition=partition, offset=offset, timestamp_ms=timestamp_ms)
            for topic in ("t", "a.b_c-d", "x" * 100, "x" * 108, "x" * 109, "x" * 249)
            for partition in (0, 2**31 - 1)
            for offset in (0, 2**31, 2**62)
            for timestamp_ms in (-1, 0, 1_772_366_400_123)
        ],
    )


@pytest.mark.parametrize(
    ("given", "first", "last", "number"),
    [
        (None, None, None, None),
        ([], None, None, None),
        ([("X", None)], None, None, None),
        ([("x", b"1")], None, None, None),
        ([("X", b"1"), ("X", b"two")], "1", "two", 1),
        ([("X", b"-1")], "-1", "-1", None),
        ([("X", b"9223372036854775808")], "9223372036854775808", "9223372036854775808", None),
        ([("X", b"\xff<b>")], "\ufffd<b>", "\ufffd<b>", None),
    ],
)
def test_headers_of_a_dead_letter_are_read_as_text_or_number_or_not_at_all(
    spark: SparkSession,
    given: list[Header] | None,
    first: str | None,
    last: str | None,
    number: int | None,
) -> None:
    schema = "headers array<struct<key:string,value:binary>>"
    headers = headers_of_a_frame()
    frame = spark.createDataFrame([(given,)], schema).select(
        headers.first_text("X").alias("first"),
        headers.last_text("X").alias("last"),
        headers.first_number("X").alias("number"),
    )
    assert frame.collect() == [Row(first=first, last=last, number=number)]
