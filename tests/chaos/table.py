"""The table: a row per fault, for a terminal and for the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from tests.chaos.running import Result

GOOD, BAD, DOUBT = "green", "bold red", "yellow"
COLUMNS = {
    "requests": "requests",
    "ran_twice": "ran twice",
    "never_told": "never told",
    "told_wrongly": "told wrongly",
    "in_doubt": "in doubt",
    "resent": "resent",
    "told_p95_s": "told p95 s",
    "told_max_s": "max s",
}
PROMISES = ("ran_twice", "never_told", "told_wrongly")


def table(results: Sequence[Result], running: str = "") -> Table:
    """Return the table so far.

    Args:
        running: what to say of the row that runs now; empty when none does.
    """
    shown = Table(title="Faults, and what became of the requests", title_justify="left")
    shown.add_column("fault", no_wrap=True)
    shown.add_column("journal")
    for header in COLUMNS.values():
        shown.add_column(header, justify="right")
    shown.add_column("")
    for result in results:
        row = result.as_json()
        cells = [_cell(name, row[name]) for name in COLUMNS]
        verdict = Text("good", GOOD) if result.good else Text("NOT GOOD", BAD)
        shown.add_row(row["fault"], row["journal"], *cells, verdict)
    if running:
        shown.caption = running
    return shown


def markdown(rows: Sequence[Mapping[str, Any]], *, date: str) -> str:
    """Return the table for the README, from the rows of `build/chaos.json`.

    >>> row = {"fault": "child-kill", "seed": 1, "journal": "sqlite", "requests": 2000,
    ...        "ran_twice": 0, "never_told": 0, "told_wrongly": 0, "in_doubt": 3, "resent": 0,
    ...        "told_p95_s": 0.25, "told_max_s": 1.0}
    >>> print(markdown([row], date="2026-11-21").splitlines()[-1])
    | child-kill | sqlite | 2,000 | 0 | 0 | 0 | 3 | 0 | 0.25 | 1 |
    """
    headers = ["fault", "journal", *COLUMNS.values()]
    aligned = ["---", "---", *("---:" for _ in COLUMNS)]
    seeds = ", ".join(sorted({str(row["seed"]) for row in rows}))
    is_short = any(row.get("short") for row in rows)
    command = 'make chaos ARGS="--short"' if is_short else "make chaos"
    lines = [f"`{command}`, seed {seeds}, {date}:", "", _line(headers), _line(aligned)]
    for row in rows:
        cells = [_plain(row[name]) for name in COLUMNS]
        lines.append(_line([row["fault"], row["journal"], *cells]))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:,g}" if value < 1e6 else f"{value:,.0f}"


def _cell(name: str, value: float | None) -> Text:
    style = ""
    if name in PROMISES:
        style = BAD if value else GOOD
    elif name == "in_doubt" and value:
        style = DOUBT
    return Text(_plain(value), style)
