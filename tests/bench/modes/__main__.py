"""`python -m tests.bench.modes`: measure, print a table, leave JSON and charts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from tests.bench.errors import BenchError
from tests.bench.launching import ROOT
from tests.bench.measure.machine import machine
from tests.bench.modes import chart
from tests.bench.modes.arm import Arm
from tests.bench.modes.found import Found, write
from tests.bench.modes.mode import Mode
from tests.bench.modes.plan import Plan
from tests.bench.modes.report import line, report
from tests.bench.modes.trial import measure, settings_text
from tests.stack import Stack, StackError

OUTPUT = ROOT / "build" / "bench"
# Without a terminal to fit into, no row of the table is to be broken.
WIDE = 190

Name = TypeVar("Name", bound=StrEnum)


def some(of: Callable[[str], Name]) -> Callable[[str], tuple[Name, ...]]:
    """Return what reads a list with commas of names.

    >>> some(Mode)("batch,at_most_once")[0].value
    'batch'
    """

    def named(text: str) -> tuple[Name, ...]:
        return tuple(of(name) for name in text.split(","))

    return named


def numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a list with commas.

    Raises:
        ValueError: one is none.
    """
    return tuple(int(one) for one in text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.modes",
        description="The published comparison of deliveries, on our system.",
        epilog="Starts the servers that the environment does not name.",
    )
    add = parser.add_argument
    modes, arms = ",".join(Mode), ",".join(Arm)
    add("--modes", type=some(Mode), default=tuple(Mode), metavar="MODES", help=modes)
    add("--arms", type=some(Arm), default=tuple(Arm), metavar="ARMS", help=arms)
    add("--n", type=numbers, metavar="N", help="default: 10,50, and 50 where 1 %% take 60 s")
    add("--seconds", type=float, metavar="S", help="of load: 60, and 600 where 1 %% take 60 s")
    add("--prefetch", type=int, metavar="P", help="of each process: default N / 2")
    add("--rounds", type=int, default=1, help="default: %(default)s")
    add("--journal", choices=("sqlite", "postgres"), default="sqlite", help="default: %(default)s")
    add("--output", type=Path, default=OUTPUT, metavar="FOLDER", help="default: build/bench")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    output: Path = asked.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    try:
        plan = Plan(
            modes=asked.modes,
            arms=asked.arms,
            sizes=asked.n,
            seconds=asked.seconds,
            prefetch=asked.prefetch,
            rounds=asked.rounds,
            journal=asked.journal,
        )
    except ValueError as error:
        parser.error(str(error))
    try:
        _measure(plan, output)
    except (BenchError, StackError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _measure(plan: Plan, output: Path) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    facts = {**machine(), "onceward": settings_text(plan)}
    found: list[Found] = []
    with Stack.start(postgres=plan.journal == "postgres") as servers, console.status("") as status:
        for number in range(1, plan.rounds + 1):
            for case in plan.cases():
                found.append(
                    measure(
                        case,
                        servers,
                        journal=plan.journal,
                        number=number,
                        folder=output,
                        say=status.update,
                    )
                )
                write(found, facts, output)
                chart.write(found, output)
                console.print(line(found[-1]))
    console.print(report(found, facts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
