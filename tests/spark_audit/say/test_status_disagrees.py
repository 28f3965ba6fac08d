"""`status_disagrees.csv`: every one of them, safe to open in a spreadsheet."""

import csv
import io
from pathlib import Path

import pytest

from spark_audit.judge.status_check import Disagreement
from spark_audit.say.findings_csv import DISAGREES_COLUMNS, write_disagreements


def _written(path: Path, rows: list[Disagreement]) -> list[list[str]]:
    write_disagreements(rows, path)
    first, *lines = csv.reader(io.StringIO(path.read_bytes().decode(), newline=""))
    assert tuple(first) == DISAGREES_COLUMNS
    return lines


def test_all_are_there_and_not_only_those_that_the_page_shows(tmp_path: Path) -> None:
    rows = [Disagreement(f"r{number}", "SUCCEEDED", "FAILED") for number in range(5_000)]
    found = _written(tmp_path / "a.csv", rows)
    assert found == [[one.request_id, one.journal_state, one.status] for one in rows]


def test_none_is_a_line_of_names(tmp_path: Path) -> None:
    assert _written(tmp_path / "a.csv", []) == []


@pytest.mark.parametrize("hostile", ["=1+1", "@cmd", 'a"b', "a,b\r\nc", "a;=1+1"])
def test_no_cell_is_a_formula_and_any_text_stays_in_its_cell(tmp_path: Path, hostile: str) -> None:
    rows = [Disagreement(hostile, "none", hostile)]
    guarded = f"'{hostile}" if hostile[0] in "=@" else hostile
    assert _written(tmp_path / "a.csv", rows) == [[guarded, "none", guarded]]
