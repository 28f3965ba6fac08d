"""`python -m tests.bench.console [--rows N] [--letters N]`: measure, print, leave JSON."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import httpx
from sqlalchemy import create_engine

from onceward.servers.ports import HOST, free_port
from tests.bench.console.planting import Planted, plant
from tests.bench.console.screens import await_letters, screens, times_ms
from tests.bench.console.slowdown import burst_per_s, reader, slows_percent
from tests.bench.errors import BenchError
from tests.bench.launching import ROOT, running
from tests.bench.measure.figures import percentile
from tests.bench.measure.processes import tree_pss_mib
from tests.bench.rows import write_json
from tests.bench.systems import onceward
from tests.eventually import eventually
from tests.stack import Servers, Stack, StackError
from tests.stack.postgres import fresh_database

OUTPUT = ROOT / "build" / "bench" / "console.json"
CONSOLE = (sys.executable, "-m", "consumer.console")
START_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """One screen, by the names of docs: Files of figures; the last two are the console's."""

    screen: str
    rows: int
    p95_ms: float
    slows_worker_percent: float
    rss_mib: float


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    asked = _parser().parse_args(arguments)
    try:
        with (
            Stack.start() as servers,
            tempfile.TemporaryDirectory(prefix="console-") as name,
            fresh_database(servers.postgres, "bench_console") as url,
        ):
            rows = _measured(servers, url, Path(name), asked)
    except (BenchError, StackError) as error:
        print(error, file=sys.stderr)
        return 1
    write_json(asked.output, [asdict(row) for row in rows])
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.console", description="The console over a large journal."
    )
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000, help="requests in the journal: %(default)s")
    add("--letters", type=int, default=100_000, help="dead letters: %(default)s")
    add("--times", type=int, default=40, help="each screen is read so often: %(default)s")
    add("--pairs", type=int, default=5, help="bursts of the worker: %(default)s")
    add("--burst", type=int, default=20_000, help="requests of each: %(default)s")
    add("--output", type=Path, default=OUTPUT, metavar="FILE", help="default: build/bench/…")
    return parser


def _measured(servers: Servers, url: str, folder: Path, asked: argparse.Namespace) -> list[Row]:
    with ExitStack() as opened:
        topic = opened.enter_context(onceward.fresh_topic(servers.kafka))
        environ = onceward.environment(servers, url, topic=topic, handlers=onceward.HANDLERS)
        onceward.migrate(environ, folder)
        group = environ["ONCEWARD_KAFKA__GROUP"]
        planted = Planted(group, asked.rows, min(asked.letters, asked.rows // 10))
        plant(url, servers.kafka, planted)
        print(f"{planted.rows:,} rows and {planted.letters:,} letters are planted", flush=True)
        console, pid = opened.enter_context(_console(environ, folder))
        print(f"all letters are known after {await_letters(console):.0f} s", flush=True)
        taken = {}
        for name, path in screens(planted).items():
            taken[name] = times_ms(console, path, times=asked.times)
            low, high = (percentile(taken[name], one) for one in (50, 95))
            print(f"{name}: p50 {low:.0f} ms, p95 {high:.0f} ms", flush=True)
        engine = create_engine(url)
        opened.callback(engine.dispose)
        worker_log = folder / "worker.log"
        opened.enter_context(running(onceward.WORKER, environ=environ, log=worker_log))
        one_burst = partial(
            burst_per_s, engine, servers.kafka, group=group, topic=topic, requests=asked.burst
        )
        one_burst()  # the first one finds a worker that has just begun

        def beside() -> float:
            with reader(str(console.base_url), tuple(screens(planted).values())):
                return one_burst()

        slows, pairs = slows_percent(one_burst, beside, pairs=asked.pairs)
        for with_reader, alone in pairs:
            print(f"worker: {alone:,.0f}/s alone, {with_reader:,.0f}/s beside a reader")
        rss_mib = tree_pss_mib(pid)
        print(
            f"slower by {slows:.1f} %; the console has {rss_mib:.0f} MiB; load "
            f"{os.getloadavg()[0]:.0f}"
        )
    return [
        Row(name, planted.rows, round(percentile(times, 95), 1), round(slows, 2), round(rss_mib, 1))
        for name, times in taken.items()
    ]


@contextmanager
def _console(environ: dict[str, str], folder: Path) -> Iterator[tuple[httpx.Client, int]]:
    port = free_port()
    argv = (*CONSOLE, "--port", str(port))
    address = f"http://{HOST}:{port}"
    with (
        running(argv, environ=environ, log=folder / "console.log") as process,
        closing(httpx.Client(base_url=address)) as client,
    ):
        eventually(lambda: _answers(client, process), timeout_s=START_LIMIT_S, what="the console")
        yield client, process.pid


def _answers(client: httpx.Client, process: subprocess.Popen[bytes]) -> bool:
    if process.poll() is not None:
        raise BenchError("the console has ended")
    try:
        return client.get("/console.css").is_success
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
