"""Exports: typed, whole or not at all, and in memory that does not grow with the letters."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from consumer.dlq import exporting
from consumer.dlq.exporting import COLUMNS, export, letter_columns
from consumer.dlq.letter_state import UNSETTLED, LetterState
from consumer.dlq.listing import JudgedLetter
from feedback.errors import KafkaUnavailable, NotAvailable, SettingsError
from tests.consumer.dlq.samples import FAILED_AT, letter, record
from tests.kit.file_rights import everything_allowed, rights

Pages = Iterator[list[JudgedLetter]]


def pages(count: int, *, size: int = 100) -> Pages:
    for begin in range(0, count, size):
        yield [
            JudgedLetter(letter(f"r{number:05d}"), LetterState.OPEN)
            for number in range(begin, min(begin + size, count))
        ]


def cut_off() -> Pages:
    yield from pages(300)
    raise KafkaUnavailable("away")


def test_a_row_has_every_column_and_bytes_that_are_no_text_are_in_base64() -> None:
    bare = letter_columns(letter(), LetterState.OPEN)
    assert list(bare) == list(COLUMNS)
    assert (bare["value"], bare["value_encoding"]) == ('{"amount": 5}', "utf-8")
    assert json.loads(bare["headers"])[0] == {"name": "onceward-request-id", "value": "a"}
    odd = letter_columns(
        letter(of={"key": None, "value": b"\xff", "timestamp_ms": 2**62}, DLQ_FAILED_AT="9" * 18),
        LetterState.UNKNOWN,
    )
    assert (odd["value"], odd["value_encoding"]) == ("/w==", "base64")
    assert (odd["key"], odd["key_encoding"]) == (None, None)
    assert (odd["dlq_timestamp"], odd["failed_at"]) == (None, None)


@pytest.mark.parametrize("name", ["letters.jsonl", "letters.parquet"])
def test_letters_that_are_meant_are_written_with_their_types(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    target.write_text("an older export")
    settled = [JudgedLetter(letter("done"), LetterState.REPAIRED)]
    given = iter([*pages(250), settled])
    assert export(given, str(target), shown=UNSETTLED) == 250
    read = "read_parquet" if name.endswith("parquet") else "read_json"
    query = f"SELECT count(DISTINCT request_id), min(attempts), max(state) FROM {read}('{target}')"
    assert duckdb.sql(query).fetchall() == [(250, 1, "open")]
    if read == "read_parquet":
        query = f"SELECT epoch_ms(max(failed_at)) FROM read_parquet('{target}')"
        assert duckdb.sql(query).fetchall() == [(FAILED_AT,)]
    assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["letters.jsonl", "letters.parquet"])
def test_an_export_is_its_owners_alone_from_its_first_byte(name: str, tmp_path: Path) -> None:
    seen: list[int] = []

    def watched() -> Iterator[list[JudgedLetter]]:
        for page in pages(3):
            yield page
            seen.extend(rights(one) for one in tmp_path.iterdir())

    with everything_allowed():
        export(watched(), str(tmp_path / name), shown=UNSETTLED)
    assert seen
    assert {*seen, rights(tmp_path / name)} == {0o600}


def test_no_letters_are_an_empty_table_with_its_columns(tmp_path: Path) -> None:
    target = tmp_path / "none.parquet"
    assert export(iter([]), str(target), shown=UNSETTLED) == 0
    described = duckdb.sql(f"DESCRIBE SELECT * FROM read_parquet('{target}')").fetchall()
    assert [one[0] for one in described] == list(COLUMNS)


@pytest.mark.parametrize("name", ["letters.jsonl", "letters.parquet"])
def test_an_export_that_was_cut_off_leaves_nothing_of_itself(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    target.write_text("an older export")
    with pytest.raises(KafkaUnavailable):
        export(cut_off(), str(target), shown=UNSETTLED)
    assert [one.read_text() for one in tmp_path.iterdir()] == ["an older export"]


def test_a_place_that_takes_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="cannot be written: No such file"):
        export(pages(1), str(tmp_path / "none" / "letters.jsonl"), shown=UNSETTLED)
    with pytest.raises(SettingsError, match=r"ends in \.parquet or \.jsonl"):
        export(pages(1), str(tmp_path / "letters.csv"), shown=UNSETTLED)


def test_parquet_without_its_library_is_said_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NotAvailable, match=r"onceward\[parquet\]"):
        export(cut_off(), str(tmp_path / "letters.parquet"), shown=UNSETTLED)
    assert list(tmp_path.iterdir()) == []


def test_rows_are_written_before_they_are_too_many_or_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet as arrow_parquet

    monkeypatch.setattr(exporting, "GROUP_ROWS", 100)
    monkeypatch.setattr(exporting, "GROUP_BYTES", 200_000)
    large = [
        JudgedLetter(letter(f"l{n}", of={"value": b"x" * 150_000}), LetterState.OPEN)
        for n in range(4)
    ]
    target = tmp_path / "letters.parquet"
    assert export(iter([*pages(250), large]), str(target), shown=UNSETTLED) == 254
    file = arrow_parquet.ParquetFile(target)
    sizes = [file.metadata.row_group(one).num_rows for one in range(file.metadata.num_row_groups)]
    file.close()
    assert sizes == [100, 100, 52, 2]


def test_a_letter_of_nobody_can_be_exported() -> None:
    from consumer.dlq.dialects.letter_headers import letter_of

    row = letter_columns(letter_of(record([], key=None, value=None)), LetterState.UNKNOWN)
    assert (row["dialect"], row["topic"], row["value"]) == ("none", None, None)
