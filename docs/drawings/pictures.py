"""Which pictures there are, and from what text each is drawn."""

from __future__ import annotations

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
    """Return the burst of each system, from the table of the page of measurements."""
    page = (DOCS / "explanation" / "measurements.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(("| Onceward,", "| Celery"))]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    found = [Bar(label, int(burst.split(" (")[0].replace(",", ""))) for label, burst, *_ in cells]
    return bars(
        "No-op requests a second in a burst, seen final by their client",
        found,
        "Medians of 3 rounds, 2026-11-21, AMD EPYC, 2 cores for everything. Repeat it: make bench",
    )


PICTURES: Mapping[str, Callable[[], str]] = {"road.svg": road, "speed.svg": speed}
