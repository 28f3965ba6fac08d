"""What is measured, in which order."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.audit import judging
from tests.bench.audit.measured import Row, Watched, watch
from tests.stack import Servers

STAGING_LIMIT_S = 900.0
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured.

    Args:
        sizes: requests of the days that are judged.
        staged: records that are read from the broker.
        rounds: how often each is measured.
    """

    sizes: tuple[int, ...]
    staged: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A row, and what others took of the machine meanwhile; None where it was not looked at."""

    row: Row
    other_cpu_percent: float | None


def measure(plan: Plan, servers: Servers, folder: Path, say: Say) -> Iterator[Measured]:
    """Yield each measurement as it is made.

    Raises:
        BenchError: a process failed, or what was planted was not found.
    """
    for size in plan.sizes:
        say(f"making a day of {size:,} requests")
        with judging.day(size, servers, folder) as made:
            for number in range(plan.rounds):
                say(f"{size:,} requests, round {number + 1}")
                yield _row(size, judging.run(made, servers), "spark", "run")
            # Apart: DuckDB takes so much memory that the files must be read anew after it. The
            # engines in turn: the machine's own speed changes.
            for number in range(plan.rounds):
                say(f"{size:,} requests judged by each engine, round {number + 1}")
                for engine in judging.ENGINES:
                    yield _row(size, judging.judge(made, engine), engine, "judge")
    say(f"staging {plan.staged:,} records")
    yield from _staged(plan, servers, folder)


def _row(requests: int, took: Watched, engine: str, stage: str) -> Measured:
    row = Row(requests, round(took.seconds, 2), round(took.peak_rss_mib, 1), engine, stage)
    return Measured(row, round(took.other_cpu_percent, 1))


def _staged(plan: Plan, servers: Servers, folder: Path) -> Iterator[Measured]:
    target = folder / "staged"
    target.mkdir(exist_ok=True)
    log = target / "staging.json"
    log.unlink(missing_ok=True)
    argv = (sys.executable, "-m", "tests.bench.audit.staging", servers.kafka)
    took = watch(
        (*argv, str(plan.staged), str(plan.rounds), str(target)),
        environ=os.environ,
        log=log,
        timeout_s=STAGING_LIMIT_S,
    )
    last = log.read_text(encoding="utf-8").splitlines()[-1]
    for seconds in json.loads(last)["warm_s"]:
        row = Row(plan.staged, round(seconds, 2), round(took.peak_rss_mib, 1), "spark", "stage")
        yield Measured(row, None)
