"""Rows, files and the table."""

import io
import json
from pathlib import Path

from rich.console import Console

from tests.bench.measure.cost import Cost
from tests.bench.plan import Case, System
from tests.bench.report import report, to_celery
from tests.bench.rows import Measured, write
from tests.bench.sampling import shares
from tests.bench.submit.process import Answer

NAMES = (
    "system journal case round requests_per_s p50_ms p99_ms cpu_s_per_1000 pss_mib "
    "other_cpu_percent"
)


def measured(
    system: System, *, seconds: float, number: int = 1, case: str = "burst", slowest_ms: float = 0
) -> Measured:
    took_ms = [] if case == "burst" else [1.0, slowest_ms]
    return Measured(
        system=system,
        case=Case.named(case),
        round=number,
        answer=Answer(requests=1000, seconds=seconds, took_ms=took_ms),
        cost=Cost(cpu_s={"client": 0.25, "redis": 0.5}, other_cpu_percent=1.25),
        pss_mib=88.88 if case == "burst" else None,
    )


def test_the_files_have_the_rows_of_the_contract_and_the_parts(tmp_path: Path) -> None:
    write([measured(System.ONCEWARD_SQLITE, seconds=0.25)], {"date": "today"}, tmp_path / "bench")
    (row,) = json.loads((tmp_path / "bench" / "main.json").read_text())
    assert list(row) == NAMES.split()
    assert (row["system"], row["journal"], row["case"]) == ("onceward", "sqlite", "burst")
    assert (row["requests_per_s"], row["p50_ms"], row["cpu_s_per_1000"]) == (4000.0, None, 0.75)
    parts = json.loads((tmp_path / "bench" / "parts.json").read_text())
    assert parts["date"] == "today"
    assert {one["part"]: one["cpu_s_per_1000"] for one in parts["rows"]} == {
        "client": 0.25,
        "redis": 0.5,
    }


def test_a_rate_has_percentiles_and_celery_has_no_journal() -> None:
    row = measured(System.CELERY, seconds=20, case="rate-50", slowest_ms=9.0).row()
    assert (row.journal, row.requests_per_s, row.p50_ms, row.p99_ms) == (None, 50.0, 1.0, 9.0)
    assert row.pss_mib is None


def test_a_burst_is_compared_with_celery_in_the_same_round() -> None:
    of_rounds = [
        measured(System.ONCEWARD_SQLITE, seconds=1, number=1),
        measured(System.CELERY, seconds=8, number=1),
        measured(System.ONCEWARD_SQLITE, seconds=4, number=2),
        measured(System.CELERY, seconds=8, number=2),
        measured(System.ONCEWARD_SQLITE, seconds=1, number=3),
    ]
    rows = [one.row() for one in of_rounds]
    assert to_celery(rows, system="onceward", journal="sqlite", case="burst") == 5.0
    assert to_celery(rows, system="onceward", journal="postgres", case="burst") is None


def test_a_rate_is_compared_by_its_99th_percentile() -> None:
    both = [
        measured(System.ONCEWARD_SQLITE, seconds=20, case="rate-50", slowest_ms=12.0),
        measured(System.CELERY, seconds=20, case="rate-50", slowest_ms=8.0),
    ]
    rows = [one.row() for one in both]
    assert to_celery(rows, system="onceward", journal="sqlite", case="rate-50") == 1.5


def test_the_table_shows_the_median_between_the_smallest_and_the_largest() -> None:
    of_rounds = [
        measured(System.ONCEWARD_SQLITE, seconds=seconds, number=number)
        for number, seconds in enumerate((0.5, 1.0, 0.25), start=1)
    ]
    printed = io.StringIO()
    Console(width=160, file=printed).print(report(of_rounds, {"cpu": "Fast One"}))
    text = printed.getvalue()
    assert "cpu: Fast One" in text
    assert "2,000 (1,000 to 4,000)" in text


def test_shares_are_by_function_whatever_the_line() -> None:
    first, second = shares(["run (a.py:3);send (b.py:7) 3", "run (a.py:4) 1"])
    assert (first.function, first.own, first.total) == ("send (b.py)", 75.0, 75.0)
    assert (second.function, second.own, second.total) == ("run (a.py)", 25.0, 100.0)
