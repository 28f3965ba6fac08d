"""The table: the ceiling, what was published, and what we reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from tests.bench.modes.found import Found, by_case
from tests.bench.modes.mode import published_tps
from tests.bench.report import cell

HEADERS = ("N", "ceiling", "published", "ours", "share %", "delays late ms", "others' CPU %")


def report(found: Sequence[Found], facts: Mapping[str, str]) -> RenderableType:
    """Return the table, above it where and with what it was measured."""
    lines = [f"{name}: {fact}" for name, fact in facts.items()]
    table = Table(title="Calls per second in steady state, median of the rounds (range)")
    table.add_column("arm, mode", no_wrap=True)
    for header in HEADERS:
        table.add_column(header, justify="right")
    for case, of_case in by_case(found).items():
        published = published_tps(case.mode, case.arm, case.n)
        table.add_row(
            f"{case.arm}, {case.mode}",
            str(case.n),
            f"{case.ceiling_tps:.4g}",
            "" if published is None else f"{published:g}",
            cell([one.steady.tps for one in of_case], 2),
            cell([100 * one.share for one in of_case], 1),
            cell([one.steady.late_ms for one in of_case], 2),
            cell([one.cost.other_cpu_percent for one in of_case], 1),
        )
    return Group(*lines, "", table)


def line(one: Found) -> str:
    """Return one measurement in a sentence."""
    return (
        f"round {one.round}, {one.case}: {one.steady.tps:.2f}/s of {one.case.ceiling_tps:.4g}, "
        f"{one.share:.1%}, in {one.steady.seconds:.1f} s; its counterparty was "
        f"{one.steady.late_ms:.2f} ms late, others took {one.cost.other_cpu_percent:.1f} % "
        "of the CPU"
    )
