"""`python -m tests.bench`: measure, print a table, leave JSON in `build/bench/`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from feedback.kafka.engines import PREFERRED
from tests.bench import million, rows
from tests.bench.errors import BenchError
from tests.bench.launching import ROOT
from tests.bench.measure.machine import machine
from tests.bench.plan import PEER_BURSTS, Case, Plan, System
from tests.bench.report import report
from tests.bench.road import run, table
from tests.bench.rounds import Rounds
from tests.bench.systems import onceward
from tests.bench.systems.peers import PEERS
from tests.stack import Stack, StackError

OUTPUT = ROOT / "build" / "bench"
MILLION = 1_000_000
DEFAULT = Plan()
JOURNALS = ("onceward-sqlite", "onceward-postgres")
# Without a terminal to fit into, no row of the table is to be broken.
WIDE = 230


def systems_named(text: str) -> tuple[System, ...]:
    """Return the systems of a list with commas; one of ours without an engine has that of `auto`.

    >>> [str(one) for one in systems_named("onceward-sqlite,onceward-sqlite-confluent")]
    ['onceward-sqlite-kafka-python', 'onceward-sqlite-confluent']

    Raises:
        ValueError: one is not known.
    """
    with_engine = {str(one): f"{one}-{PREFERRED}" for one in JOURNALS}
    return tuple(System(with_engine.get(name, name)) for name in text.split(","))


def cases_named(text: str) -> tuple[Case, ...]:
    """Return the cases of a list with commas.

    Raises:
        ValueError: one is not known.
    """
    return tuple(Case.named(name) for name in text.split(","))


def _parser() -> argparse.ArgumentParser:
    names = ", ".join(System)
    bursts = ", ".join(f"{name} {count:,}" for name, count in PEER_BURSTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="No-op requests, submitted and seen final by a separate process.",
        epilog="Starts the servers that the environment does not name.",
    )
    add = parser.add_argument
    add("--rounds", type=int, default=DEFAULT.rounds, help="default: %(default)s")
    add(
        "--only",
        type=systems_named,
        metavar="SYSTEMS",
        help=f"of {names}; {' and '.join(JOURNALS)} have the engine of auto, {PREFERRED}; "
        "default: all of ours, and celery",
    )
    add("--peers", action="store_true", help=f"{', '.join(PEER_BURSTS)} beside these")
    add("--cases", type=cases_named, metavar="CASES", help="burst,rate-50,rate-200")
    add("--burst", type=int, metavar="N", help=f"requests of a burst: 20,000, {bursts}")
    add("--seconds", type=float, default=DEFAULT.rate_seconds, help="of a rate: %(default)s")
    add("--profile", action="store_true", help="sample worker and client with py-spy")
    add("--road", action="store_true", help="where each millisecond of single requests goes")
    add(
        "--million",
        type=int,
        nargs="?",
        const=MILLION,
        metavar="N",
        help="watch the memory of a worker while a million requests wait, and nothing else",
    )
    add("--output", type=Path, default=OUTPUT, metavar="FOLDER", help="default: build/bench")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    asked = _parser().parse_args(arguments)
    output: Path = asked.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    try:
        if asked.million:
            _watch_memory(asked.million, output)
        elif asked.road:
            _drive(_plan(asked), output)
        else:
            _measure(_plan(asked), output)
    except (BenchError, StackError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def systems_of(only: Sequence[System] | None, *, peers: bool) -> tuple[System, ...]:
    """Return the systems to measure: those of `--only`, or the default, and all peers if asked."""
    return tuple(dict.fromkeys([*(only or DEFAULT.systems), *(PEER_BURSTS if peers else ())]))


def _plan(asked: argparse.Namespace) -> Plan:
    return Plan(
        systems=systems_of(asked.only, peers=asked.peers),
        cases=asked.cases or DEFAULT.cases,
        rounds=asked.rounds,
        burst=asked.burst,
        rate_seconds=asked.seconds,
        profile=asked.profile,
    )


def _measure(plan: Plan, output: Path) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    beside = [PEERS[one] for one in plan.systems if one in PEERS]
    facts = {**machine(), "onceward": onceward.settings_text()}
    facts |= {one.product: one.settings_text() for one in beside}
    promises = {one.product: one.promise for one in beside}
    measured: list[rows.Measured] = []
    with Stack.start() as servers, console.status("") as status:
        for one in Rounds(plan, servers, output, status.update).run():
            measured.append(one)
            rows.write(measured, facts, output)
            console.print(_line(one))
    console.print(report(measured, facts, promises))


def _drive(plan: Plan, output: Path) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = WIDE
    roads: dict[str, list[table.Marks]] = {}
    with Stack.start() as servers, console.status("") as status:
        for one in run.drive(plan, servers, output, status.update):
            roads.setdefault(one.name, []).extend(one.roads)
            console.print(one.line)
    found = {name: table.figures(those) for name, those in roads.items()}
    rows.write_json(output / "road.json", found)
    console.print(table.table(found))


def _watch_memory(requests: int, output: Path) -> None:
    console = Console()
    with Stack.start(postgres=False) as servers, console.status("") as status:
        found = million.watch_memory(servers, requests=requests, folder=output, say=status.update)
    rows.write_json(output / "million.json", asdict(found))
    console.print(million.text(found))


def _line(one: rows.Measured) -> str:
    row = one.row()
    took = "" if row.p50_ms is None else f", p50 {row.p50_ms} ms, p99 {row.p99_ms} ms"
    return (
        f"round {one.round}, {one.system}, {row.case}: {row.requests_per_s}/s{took}, "
        f"others took {row.other_cpu_percent} % of the CPU"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
