"""The table for the page of measurements."""

from dataclasses import asdict

from docs.drawings.pictures import speed_of
from tests.bench.page import markdown
from tests.bench.plan import System
from tests.bench.rows import Row


def row(system: System, case: str, number: int, *, figure: float) -> dict[str, object]:
    burst = case == "burst"
    one = Row(
        system=system.product,
        journal=system.journal,
        engine=system.engine,
        case=case,
        round=number,
        requests_per_s=figure,
        p50_ms=None if burst else figure,
        p99_ms=None if burst else figure * 10,
        cpu_s_per_1000=0.444,
        pss_mib=88.8 if burst else None,
        other_cpu_percent=1.0,
    )
    return asdict(one)


def test_a_line_has_the_medians_of_all_cases_and_the_cost_of_the_burst() -> None:
    rows = [
        row(System.SQLITE_CONFLUENT, case, number, figure=factor * number)
        for number in (3, 1, 2)
        for case, factor in (("burst", 2_000.0), ("rate-50", 5.06), ("rate-200", 7.0))
    ]
    assert markdown(rows).splitlines()[2:] == [
        "| Onceward, SQLite, confluent | 4,000 (2,000 to 6,000) | 10.1 / 101 | 14.0 / 140 "
        "| 0.44 | 89 |"
    ]


def test_each_system_has_its_line_in_one_order_whichever_was_measured_first() -> None:
    rows = [row(system, "burst", 1, figure=1_000.0) for system in System]
    table = markdown(rows[::-1])
    names = [line.split(" | ")[0] for line in table.splitlines()[2:]]
    assert names[:4] == [
        "| Onceward, SQLite, kafka-python",
        "| Onceward, SQLite, confluent",
        "| Onceward, PostgreSQL, kafka-python",
        "| Onceward, PostgreSQL, confluent",
    ]
    assert [name.split()[1] for name in names[4:]] == ["Celery", "Dramatiq", "FastStream"]
    drawn = speed_of(f"<!-- bench:begin -->\n2031-01-02\n\n{table}\n<!-- bench:end -->")
    assert drawn.count(">1,000<") == len(System)
