"""Findings as CSV: safe to open in a spreadsheet."""

import csv
import io
from pathlib import Path

import pytest

from spark_audit.findings import Finding, FindingRow
from spark_audit.say.findings_csv import COLUMNS, write_csv, write_findings_csv
from tests.spark_audit.say.samples import SINCE_MS, found_request


def _written(path: Path, rows: list[FindingRow]) -> list[dict[str, str]]:
    assert write_csv(rows, path) == len(rows)
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))


def test_a_request_is_a_line_with_times_that_people_read(tmp_path: Path) -> None:
    row = found_request("r1", Finding.IN_DOUBT, state="IN_DOUBT", claimed_at=SINCE_MS)
    (found,) = _written(tmp_path / "a.csv", [row])
    assert tuple(found) == COLUMNS
    assert (found["request_id"], found["claimed_at"]) == ("r1", "2026-11-20T00:00:00.000Z")
    assert (found["offset"], found["code"]) == ("7", "")


def test_lines_end_as_rfc_4180_has_it(tmp_path: Path) -> None:
    write_csv([found_request()], tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_bytes().split(b"\r\n")
    assert len(lines) == 3
    assert lines[2] == b""
    assert not any(b"\n" in line for line in lines)


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_cell_is_a_formula(tmp_path: Path, begin: str) -> None:
    hostile = f"{begin}cmd|' /C calc'!A0"
    row = found_request(hostile, code=hostile, owner=hostile, topic=hostile)
    (found,) = _written(tmp_path / "a.csv", [row])
    for name in ("request_id", "code", "owner", "topic"):
        assert found[name] == f"'{hostile}"


@pytest.mark.parametrize("text", ['a"b', "a,b", "a\r\nb", "a;=1+1", "<script>", "\u202e", ""])
def test_any_text_stays_in_its_cell(tmp_path: Path, text: str) -> None:
    (found,) = _written(tmp_path / "a.csv", [found_request("r", code=text)])
    assert found["code"] == text
    assert found["payload_sha256"] == "ab" * 32


def test_nothing_in_doubt_is_a_line_of_names(tmp_path: Path) -> None:
    assert _written(tmp_path / "a.csv", []) == []
    assert (tmp_path / "a.csv").read_bytes().startswith(b'"request_id","topic"')


def test_each_finding_has_its_file_and_doubts_always(tmp_path: Path) -> None:
    lost = [(Finding.LOST, found_request(one)) for one in ("a", "b")]
    write_findings_csv([*lost, (Finding.STUCK, found_request("c"))], tmp_path)
    lines = {one.name: len(one.read_bytes().splitlines()) - 1 for one in tmp_path.iterdir()}
    assert lines == {"lost.csv": 2, "stuck.csv": 1, "in_doubt.csv": 0}
