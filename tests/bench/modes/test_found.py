"""Rows, files and the table."""

import io
import json
from pathlib import Path

from rich.console import Console

from tests.bench.modes.arm import Arm
from tests.bench.modes.found import write
from tests.bench.modes.mode import Mode
from tests.bench.modes.report import line, report
from tests.bench.modes.test_chart import found

NAMES = "mode n arm tps ceiling_tps share_of_ceiling"


def test_a_case_has_one_row_of_the_contract_with_the_median_of_its_rounds(tmp_path: Path) -> None:
    rounds = [found(Mode.BATCH, tps, number=at) for at, tps in enumerate((9.0, 9.5, 9.9), start=1)]
    write(rounds, {"date": "today"}, tmp_path)
    (row,) = json.loads((tmp_path / "modes.json").read_text())
    assert list(row) == NAMES.split()
    assert row == {
        "mode": "batch",
        "n": 10,
        "arm": "slow",
        "tps": 9.5,
        "ceiling_tps": 10.0,
        "share_of_ceiling": 0.95,
    }
    every = json.loads((tmp_path / "modes-rounds.json").read_text())
    assert every["date"] == "today"
    assert [(one["round"], one["tps"]) for one in every["rounds"]] == [(1, 9.0), (2, 9.5), (3, 9.9)]
    assert every["rounds"][0]["other_cpu_percent"] == 2.0
    assert every["rounds"][0]["counterparty_late_ms"] == 0.5


def test_the_table_has_what_was_published_beside_ours() -> None:
    printed = io.StringIO()
    both = [found(Mode.AT_LEAST_ONCE, 35.0), found(Mode.AT_MOST_ONCE, 48.0, arm=Arm.CONTROL)]
    Console(width=130, file=printed).print(report(both, {"cpu": "Fast One"}))
    lines = printed.getvalue().splitlines()
    assert "cpu: Fast One" in lines
    cells = {text.split("│")[1].strip(): text.split("│")[2:-1] for text in lines if "│" in text}
    assert [one.strip() for one in cells["slow, at_least_once"]] == (
        ["10", "35.71", "34", "35.00", "98.0", "0.50", "2.0"]
    )
    assert cells["control, at_most_once"][2].strip() == ""


def test_a_measurement_is_told_in_a_line() -> None:
    assert line(found(Mode.BATCH, 9.8)) == (
        "round 1, batch, N = 10, slow: 9.80/s of 10, 98.0%, in 28.0 s; its counterparty was "
        "0.50 ms late, others took 2.0 % of the CPU"
    )
