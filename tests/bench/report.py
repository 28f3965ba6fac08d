"""The table: medians over the rounds, what was smallest and largest, and peers beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table

from tests.bench.measure.figures import Spread, median_ratio, spread
from tests.bench.plan import System
from tests.bench.rows import Measured

RATIO_OF = {True: "requests_per_s", False: "p99_ms"}


def report(
    measured: Sequence[Measured], facts: Mapping[str, str], promises: Mapping[str, str]
) -> RenderableType:
    """Return the tables, above them where and with what it was measured.

    Args:
        promises: of each peer; they stand below the figures.
    """
    lines = [f"{name}: {fact}" for name, fact in facts.items()]
    foot = [f"{product}: {promise}" for product, promise in promises.items()]
    return Group(*lines, "", _figures(measured), *foot, "", _parts(measured))


def to_celery(measured: Sequence[Measured], system: System, case: str) -> float | None:
    """Return how a system stands to Celery in the same round, as the median over the rounds.

    It compares requests/s of a burst, and p99 of a rate.
    """
    figure = RATIO_OF[case == "burst"]
    by_round = {
        (one.round, one.system): getattr(one.row(), figure)
        for one in measured
        if one.case.name == case
    }
    pairs = [
        (value, by_round.get((number, System.CELERY)))
        for (number, name), value in by_round.items()
        if name is system
    ]
    return median_ratio(pairs)


def _figures(measured: Sequence[Measured]) -> Table:
    table = Table(title="Median of the rounds (smallest to largest)")
    table.add_column("system, case", no_wrap=True)
    headers = ("requests/s", "p50 ms", "p99 ms", "CPU s/1,000", "PSS MiB", "others' CPU %")
    for header in (*headers, "to Celery"):
        table.add_column(header, justify="right")
    for (system, case), group in _grouped(measured).items():
        of_group = [one.row() for one in group]
        ratio = None if system is System.CELERY else to_celery(measured, system, case)
        table.add_row(
            f"{system}, {case}",
            cell([row.requests_per_s for row in of_group], 0),
            cell([row.p50_ms for row in of_group], 1),
            cell([row.p99_ms for row in of_group], 1),
            cell([row.cpu_s_per_1000 for row in of_group], 2),
            cell([row.pss_mib for row in of_group], 0),
            cell([row.other_cpu_percent for row in of_group], 1),
            "" if ratio is None else f"{ratio:.1f} x",
        )
    table.caption = "to Celery: requests/s of a burst, p99 of a rate, in the same round"
    return table


def _parts(measured: Sequence[Measured]) -> Table:
    names = list(dict.fromkeys(name for one in measured for name in one.cpu_by_part))
    table = Table(title="CPU milliseconds for one request, by part (median)")
    table.add_column("system, case", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for (system, case), group in _grouped(measured).items():
        cells = [spread([one.cpu_by_part.get(name) for one in group]) for name in names]
        table.add_row(
            f"{system}, {case}", *("" if cell is None else f"{cell.median:.3f}" for cell in cells)
        )
    return table


def _grouped(measured: Sequence[Measured]) -> dict[tuple[System, str], list[Measured]]:
    groups: dict[tuple[System, str], list[Measured]] = {}
    order = list(System)
    for one in sorted(measured, key=lambda one: order.index(one.system)):
        groups.setdefault((one.system, one.case.name), []).append(one)
    return groups


def cell(values: Sequence[float | None], digits: int) -> str:
    """Return the median, and the smallest and largest where they differ; nothing of no values."""
    found: Spread | None = spread(values)
    if found is None:
        return ""
    median, low, high = (f"{one:,.{digits}f}" for one in (found.median, found.low, found.high))
    return median if low == high else f"{median} ({low} to {high})"
