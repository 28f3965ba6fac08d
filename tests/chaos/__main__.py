"""`python -m tests.chaos`: faults, and the account of what became of the requests."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from feedback.errors import ExitCode, OncewardError
from tests.chaos.place import ROOT, Modules
from tests.chaos.row import Row
from tests.chaos.rows import ROWS, SHORT
from tests.chaos.running import Result, run_row
from tests.chaos.screen import RowScreen
from tests.chaos.table import markdown, table
from tests.stack import Servers, StackError

LINE_WIDTH = 140


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    asked = _parser().parse_args(arguments)
    if asked.list:
        for row in ROWS.values():
            print(f"{row.fault:24} {row.journal:9} {row.what}")
        return ExitCode.FINE
    path: Path = asked.output / "chaos.json"
    if asked.markdown:
        return _print_markdown(path)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _leave)
    try:
        return _chaos(asked, path)
    except KeyboardInterrupt:
        print("interrupted; everything was stopped", file=sys.stderr)
        return 128 + signal.SIGINT


def _leave(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description="The real stack under faults, and a bank that counts.",
        epilog="The servers come from the environment: run it by `make chaos`, or as "
        "`python -m tests.stack -- python -m tests.chaos`.",
    )
    add = parser.add_argument
    add("faults", nargs="*", metavar="FAULT", help="all by default")
    add("--seed", type=int, default=1, help="decides load and faults, 1 by default")
    add("--short", action="store_true", help="seconds instead of minutes, a few rows by default")
    add("--list", action="store_true", help="name the faults and end")
    add("--markdown", action="store_true", help="print the last table as the README has it")
    add("--output", type=Path, default=ROOT / "build", metavar="FOLDER", help="build by default")
    add("--client", default="auto", help="the library for Kafka, as `[kafka] client` names it")
    add(
        "--worker-module",
        default="consumer",
        help="whose `run` is a worker; to plant a fault in it",
    )
    return parser


def _rows(asked: argparse.Namespace) -> list[Row]:
    names = asked.faults or (SHORT if asked.short else tuple(ROWS))
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        print(f"no such fault: {', '.join(unknown)}; see --list", file=sys.stderr)
        raise SystemExit(ExitCode.USAGE)
    return [ROWS[name] for name in names]


def _chaos(asked: argparse.Namespace, path: Path) -> int:
    rows = _rows(asked)
    servers = Servers.of_environment(os.environ)
    # Each row has settings of its own; what the environment says would win over them.
    for name in [name for name in os.environ if name.startswith("ONCEWARD_")]:
        del os.environ[name]
    asked.output.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a run that does not end leaves no table of another
    logging.basicConfig(filename=asked.output / "chaos-client.log", level=logging.WARNING)
    console = _console()
    results: list[Result] = []
    code = ExitCode.FINE
    with RowScreen(console) as screen:
        for row in rows:
            result = _run(row, asked, servers, screen)
            if result is None:
                code = ExitCode.NOT_AVAILABLE
                continue
            results.append(result)
            path.write_text(json.dumps([one.as_json() for one in results], indent=2) + "\n")
    console.print(table(results))
    for result in results:
        for reason in result.reasons:
            console.print(f"{result.row.fault}: {reason}", style="bold red", soft_wrap=True)
    if not all(result.good for result in results):
        return ExitCode.BAD_ANSWER
    return code


def _console() -> Console:
    # A pipe has no width; a table that is folded cannot be read.
    return Console(highlight=False, width=None if sys.stdout.isatty() else LINE_WIDTH)


def _run(row: Row, asked: argparse.Namespace, servers: Servers, screen: RowScreen) -> Result | None:
    screen.begin(row)
    try:
        result = run_row(
            row,
            seed=asked.seed,
            short=asked.short,
            servers=servers,
            folder=(asked.output / "chaos" / row.fault).resolve(),
            modules=Modules(worker=asked.worker_module, kafka_client=asked.client),
            on_open=screen.watch,
        )
    except (OncewardError, StackError, TimeoutError, OSError) as error:
        screen.say(f"{row.fault} could not be run: {error}")
        screen.end(None)
        return None
    screen.end(result)
    return result


def _print_markdown(path: Path) -> int:
    try:
        rows = json.loads(path.read_text())
    except FileNotFoundError:
        print(f"there is no {path}: run it first", file=sys.stderr)
        return ExitCode.NOT_AVAILABLE
    date = time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))
    print(markdown(rows, date=date))
    return ExitCode.FINE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
