"""Rows, files and the table."""

import io
import json
from pathlib import Path

from rich.console import Console

from tests.bench.__main__ import WIDE
from tests.bench.measure.cost import Cost
from tests.bench.plan import Case, System
from tests.bench.report import report, to_celery
from tests.bench.rows import Measured, write
from tests.bench.sampling import shares
from tests.bench.submit.process import Answer
from tests.bench.systems.peers import PEERS

NAMES = (
    "system journal engine case round requests_per_s p50_ms p99_ms cpu_s_per_1000 pss_mib "
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


def printed(of_rounds: list[Measured], promises: dict[str, str]) -> str:
    output = io.StringIO()
    console = Console(width=WIDE, file=output)
    console.print(report(of_rounds, {"cpu": "Fast One"}, promises))
    return output.getvalue()


def test_the_files_have_the_rows_of_the_contract_and_the_parts(tmp_path: Path) -> None:
    write([measured(System.SQLITE_CONFLUENT, seconds=0.25)], {"date": "today"}, tmp_path / "bench")
    (row,) = json.loads((tmp_path / "bench" / "main.json").read_text())
    assert list(row) == NAMES.split()
    assert (row["system"], row["journal"], row["engine"]) == ("onceward", "sqlite", "confluent")
    assert row["case"] == "burst"
    assert (row["requests_per_s"], row["p50_ms"], row["cpu_s_per_1000"]) == (4000.0, None, 0.75)
    parts = json.loads((tmp_path / "bench" / "parts.json").read_text())
    assert parts["date"] == "today"
    assert {(one["journal"], one["engine"]) for one in parts["rows"]} == {("sqlite", "confluent")}
    assert {one["part"]: one["cpu_s_per_1000"] for one in parts["rows"]} == {
        "client": 0.25,
        "redis": 0.5,
    }


def test_a_rate_has_percentiles_and_celery_has_no_journal() -> None:
    row = measured(System.CELERY, seconds=20, case="rate-50", slowest_ms=9.0).row()
    assert (row.journal, row.engine) == (None, None)
    assert (row.requests_per_s, row.p50_ms, row.p99_ms) == (50.0, 1.0, 9.0)
    assert row.pss_mib is None


def test_a_burst_is_compared_with_celery_in_the_same_round() -> None:
    of_rounds = [
        measured(System.SQLITE_CONFLUENT, seconds=1, number=1),
        measured(System.CELERY, seconds=8, number=1),
        measured(System.SQLITE_CONFLUENT, seconds=4, number=2),
        measured(System.CELERY, seconds=8, number=2),
        measured(System.SQLITE_CONFLUENT, seconds=1, number=3),
        measured(System.SQLITE_KAFKA_PYTHON, seconds=2, number=1),
    ]
    assert to_celery(of_rounds, System.SQLITE_CONFLUENT, "burst") == 5.0
    assert to_celery(of_rounds, System.SQLITE_KAFKA_PYTHON, "burst") == 4.0
    assert to_celery(of_rounds, System.POSTGRES_CONFLUENT, "burst") is None


def test_a_rate_is_compared_by_its_99th_percentile() -> None:
    both = [
        measured(System.SQLITE_CONFLUENT, seconds=20, case="rate-50", slowest_ms=12.0),
        measured(System.CELERY, seconds=20, case="rate-50", slowest_ms=8.0),
    ]
    assert to_celery(both, System.SQLITE_CONFLUENT, "rate-50") == 1.5


def test_the_table_shows_the_median_between_the_smallest_and_the_largest() -> None:
    of_rounds = [
        measured(System.SQLITE_CONFLUENT, seconds=seconds, number=number)
        for number, seconds in enumerate((0.5, 1.0, 0.25), start=1)
    ]
    text = printed(of_rounds, {})
    assert "cpu: Fast One" in text
    assert "2,000 (1,000 to 4,000)" in text


def test_the_table_has_a_line_for_each_system_and_the_promise_of_each_peer() -> None:
    every = [measured(system, seconds=1) for system in System]
    promises = {one.product: one.promise for one in PEERS.values()}
    lines = printed(every, promises).splitlines()
    for system in System:
        # Its figures, and its processor time by part.
        assert len([line for line in lines if f" {system}, burst " in line]) == 2
    for product, promise in promises.items():
        assert [line for line in lines if line.strip() == f"{product}: {promise}"]


def test_shares_are_by_function_whatever_the_line() -> None:
    first, second = shares(["run (a.py:3);send (b.py:7) 3", "run (a.py:4) 1"])
    assert (first.function, first.own, first.total) == ("send (b.py)", 75.0, 75.0)
    assert (second.function, second.own, second.total) == ("run (a.py)", 25.0, 100.0)
