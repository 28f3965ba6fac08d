"""Which pictures there are, and from what text each is drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.drawings.bars import Bar, bars
from docs.drawings.sequence import sequence

DOCS = Path(__file__).parents[1]
STATIC = DOCS / "static"


def road() -> str:
    """Return the road of a request."""
    return sequence((DOCS / "drawings" / "road.txt").read_text(encoding="utf-8"))


def speed() -> str:
    """Return the burst of each system of the page of measurements."""
    return speed_of((DOCS / "explanation" / "measurements.md").read_text(encoding="utf-8"))


def speed_of(page: str) -> str:
    """Return the burst of each system, from the first table of a page, and the date above it."""
    part = page.partition("<!-- bench:begin -->")[2].partition("<!-- bench:end -->")[0]
    _, _, *rows = [line for line in part.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    found = [Bar(label, int(burst.split(" (")[0].replace(",", ""))) for label, burst, *_ in cells]
    # Which of them a plain run measures.
    more = any(one.label.startswith(("Dramatiq", "FastStream")) for one in found)
    command = "make bench ARGS=--peers" if more else "make bench"
    (date,) = re.findall(r"\d{4}-\d\d-\d\d", part)
    return bars(
        "No-op requests a second in a burst, seen final by their client",
        found,
        f"Medians of 3 rounds, {date}, AMD EPYC, 2 cores for everything. Repeat it: {command}",
    )


PICTURES: Mapping[str, Callable[[], str]] = {"road.svg": road, "speed.svg": speed}
