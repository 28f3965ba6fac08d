"""`python -m tests.bench.page [main.json]`: the table for the page of measurements."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.__main__ import OUTPUT
from tests.bench.measure.figures import spread
from tests.bench.plan import System
from tests.bench.report import cell
from tests.bench.systems.environments import pinned

HEAD = """\
| | burst, requests/s | 50/s: p50 / p99 ms | 200/s: p50 / p99 ms | CPU ms a request | memory, MiB |
|---|---|---|---|---|---|"""
JOURNALS = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
PEERS = {
    System.CELERY: "Celery {}, prefork, Redis",
    System.DRAMATIQ: "Dramatiq {}, Redis",
    System.FASTSTREAM: "FastStream {}, aiokafka",
}

Rows = Sequence[dict[str, Any]]


def markdown(rows: Rows) -> str:
    """Return a line for each system: medians over its rounds, CPU and memory of its bursts."""
    groups: dict[System, list[dict[str, Any]]] = {}
    for row in rows:
        named = [row[name] for name in ("system", "journal", "engine") if row[name] is not None]
        groups.setdefault(System("-".join(named)), []).append(row)
    found = [_line(_label(one), groups[one]) for one in System if one in groups]
    return "\n".join([HEAD, *found])


def _label(system: System) -> str:
    if system.journal is not None:
        return f"Onceward, {JOURNALS[system.journal]}, {system.engine}"
    version = ".".join(pinned(system).split(".")[:2])
    return PEERS[system].format(version)


def _line(label: str, rows: Rows) -> str:
    burst = [row for row in rows if row["case"] == "burst"]
    cells = [
        label,
        cell([row["requests_per_s"] for row in burst], 0),
        *(_latency(rows, f"rate-{rate}") for rate in (50, 200)),
        _median([row["cpu_s_per_1000"] for row in burst], 2),
        _median([row["pss_mib"] for row in burst], 0),
    ]
    return f"| {' | '.join(cells)} |"


def _latency(rows: Rows, case: str) -> str:
    of_case = [row for row in rows if row["case"] == case]
    both = [_median([row[name] for row in of_case], 1) for name in ("p50_ms", "p99_ms")]
    return " / ".join(both) if all(both) else ""


def _median(values: Sequence[float | None], digits: int) -> str:
    found = spread(values)
    if found is None:
        return ""
    return f"{found.median:.{digits if found.median < 100 else 0}f}"


if __name__ == "__main__":
    path = Path(sys.argv[1]) if sys.argv[1:] else OUTPUT / "main.json"
    print(markdown(json.loads(path.read_text(encoding="utf-8"))))
