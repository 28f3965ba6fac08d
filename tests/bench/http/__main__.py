"""`python -m tests.bench.http [--cases submit,status]`: measure, print, leave JSON."""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import uvloop

from tests.bench.errors import BenchError
from tests.bench.http.cases import CASES, Measured, Sizes
from tests.bench.http.door import door
from tests.bench.launching import ROOT
from tests.bench.measure.figures import percentile
from tests.bench.measure.machine import machine
from tests.bench.rows import write_json
from tests.stack import Servers, Stack, StackError

OUTPUT = ROOT / "build" / "bench"
MOST_STREAMS = 10_000
# Connections to servers, logs and libraries, in the door and here.
OTHER_FILES = 500


@dataclass(frozen=True, slots=True)
class Row:
    """One case, by the names of docs: Files of figures; None where it has no such figure."""

    case: str
    requests_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    wrong: int
    rss_mib: float


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code: 1 where an answer was wrong."""
    asked = _parser().parse_args(arguments)
    sizes = Sizes(asked.connections, asked.seconds, _streams(asked.streams))
    output: Path = asked.output
    facts, rows, parts = machine(), list[Row](), list[dict[str, object]]()
    try:
        with Stack.start(postgres=False) as servers, tempfile.TemporaryDirectory() as folder:
            for name in asked.cases:
                measured = _measured(servers, name, sizes, Path(folder) / f"{name}.log")
                rows.append(_row(name, measured))
                parts += _parts(name, measured)
                write_json(output / "http.json", [asdict(row) for row in rows])
                write_json(output / "http-parts.json", {**facts, "rows": parts})
                print(_line(rows[-1], measured), flush=True)
    except (BenchError, StackError) as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if any(row.wrong for row in rows) else 0


def cases_named(text: str) -> tuple[str, ...]:
    """Return the cases of a list with commas.

    Raises:
        ValueError: one is not known.
    """
    names = tuple(text.split(","))
    if not CASES.keys() >= set(names):
        raise ValueError(text)
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.http", description="The front door under load."
    )
    add = parser.add_argument
    add("--cases", type=cases_named, default=tuple(CASES), metavar="CASES", help=",".join(CASES))
    add("--seconds", type=float, default=10.0, help="of each case: %(default)s")
    add("--connections", type=int, default=64, help="default: %(default)s")
    add("--streams", type=int, help=f"default: {MOST_STREAMS:,}, or as many as may be open")
    add("--output", type=Path, default=OUTPUT, metavar="FOLDER", help="default: build/bench")
    return parser


def _streams(asked: int | None) -> int:
    """Return how many streams may be open, and let the door inherit the limit of files."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return min(asked or MOST_STREAMS, most - OTHER_FILES)


def _measured(servers: Servers, name: str, sizes: Sizes, log: Path) -> Measured:
    with (
        door(servers, log) as opened,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(CASES[name](opened, sizes))


def _row(name: str, measured: Measured) -> Row:
    timed = measured.timed
    return Row(
        case=name,
        # Of events the rate is ours.
        requests_per_s=None if name == "streams" else round(timed.count / timed.seconds, 1),
        p50_ms=_ms(timed.took_ms, 50),
        p99_ms=_ms(timed.took_ms, 99),
        wrong=measured.wrong,
        rss_mib=round(measured.rss_mib, 1),
    )


def _ms(took_ms: Sequence[float], percent: float) -> float | None:
    return round(percentile(took_ms, percent), 2) if took_ms else None


def _parts(name: str, measured: Measured) -> list[dict[str, object]]:
    per_1000 = measured.cost.per_1000(measured.timed.count)
    return [
        {"case": name, "part": part, "cpu_s_per_1000": round(seconds, 4)}
        for part, seconds in per_1000.items()
    ]


def _line(row: Row, measured: Measured) -> str:
    rate = "" if row.requests_per_s is None else f"{row.requests_per_s:,}/s, "
    late = measured.timed.late_ms
    begun = f"begun p99 {percentile(late, 99):.2f} ms late; " if late else ""
    cpu = ", ".join(
        f"{part} {ms:.2f}" for part, ms in measured.cost.per_1000(measured.timed.count).items()
    )
    return (
        f"{row.case}: {rate}p50 {row.p50_ms} ms, p99 {row.p99_ms} ms, {row.wrong} wrong, "
        f"{row.rss_mib} MiB; {begun}CPU ms each: {cpu}; others took "
        f"{measured.cost.other_cpu_percent:.0f} % of the CPU, load {os.getloadavg()[0]:.0f}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
