"""`python -m tests.bench.audit`: measure the audit, print a table, leave JSON in `build/bench/`."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.bench.audit.plan import Measured, Plan, measure
from tests.bench.errors import BenchError
from tests.bench.launching import ROOT
from tests.bench.measure.machine import machine
from tests.bench.report import cell
from tests.bench.rows import write_json
from tests.stack import Stack, StackError

OUTPUT = ROOT / "build" / "bench"
WIDE = 120


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list with commas.

    >>> numbers("1_000,10_000")
    (1000, 10000)

    Raises:
        ValueError: one is none.
    """
    return tuple(int(one) for one in text.split(","))


def table(measured: Sequence[Measured]) -> Table:
    """Return medians over the rounds, smallest to largest."""
    made = Table(title="Median of the rounds (smallest to largest)")
    for name in ("stage", "engine", "requests", "seconds", "a second", "peak MiB", "others' CPU %"):
        made.add_column(name, justify="left" if name in ("stage", "engine") else "right")
    groups: dict[tuple[str, str, int], list[Measured]] = {}
    for one in measured:
        groups.setdefault((one.row.stage, one.row.engine, one.row.requests), []).append(one)
    for (stage, engine, requests), group in groups.items():
        seconds = median(one.row.seconds for one in group)
        made.add_row(
            *(stage, engine, f"{requests:,}", cell([one.row.seconds for one in group], 1)),
            f"{requests / seconds:,.0f}",
            cell([one.row.peak_rss_mib for one in group], 0),
            cell([one.other_cpu_percent for one in group], 1),
        )
    return made


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.audit", description=__doc__)
    add = parser.add_argument
    add("--requests", type=numbers, default=(1_000_000, 10_000_000), help="sizes of days")
    add("--staged", type=int, default=2_000_000, help="records to read from the broker")
    add("--rounds", type=int, default=3, help="default: %(default)s")
    add("--output", type=Path, default=OUTPUT, metavar="FOLDER", help="default: build/bench")
    asked = parser.parse_args(arguments)
    output: Path = asked.output.absolute()
    folder = output / "audit"
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    measured: list[Measured] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with Stack.start(postgres=False) as servers, console.status("") as status:
            plan = Plan(asked.requests, asked.staged, asked.rounds)
            for one in measure(plan, servers, folder, status.update):
                measured.append(one)
                write_json(output / "audit.json", [asdict(each.row) for each in measured])
                console.print(one)
    except (BenchError, StackError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    for name, fact in machine().items():
        console.print(f"{name}: {fact}")
    console.print(table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
