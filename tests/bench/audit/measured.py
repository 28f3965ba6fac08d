"""A process watched from outside: seconds, memory at its highest, and what others took."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from feedback.clock import monotonic_s
from onceward.servers.errors import tail
from tests.bench.errors import BenchError
from tests.bench.launching import running
from tests.bench.measure.processes import machine_busy_s, tree_cpu_s

# The kernel keeps the highest itself: only what is new in the last moment can be missed.
EVERY_S = 0.2
_HIGHEST = re.compile(r"VmHWM:\s+(\d+) kB")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, with the names of docs: Files of figures.

    Args:
        seconds: from the start of the process to its end.
        peak_rss_mib: the highest of each of its processes, added up.
        engine: `spark` or `duckdb`.
        stage: `run` is the whole command on a snapshot, `judge` the judgement alone, `stage` the
            reading of records from a broker.
    """

    requests: int
    seconds: float
    peak_rss_mib: float
    engine: str
    stage: str


@dataclass(frozen=True, slots=True)
class Watched:
    """What a process took.

    Args:
        cpu_s: of it and all its children.
        other_cpu_percent: what others took of the machine meanwhile.
    """

    seconds: float
    peak_rss_mib: float
    cpu_s: float
    other_cpu_percent: float


def watch(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    log: Path,
    timeout_s: float,
    codes: Sequence[int] = (0,),
) -> Watched:
    """Run a program to its end.

    Args:
        codes: with which it may end.

    Raises:
        BenchError: it ended otherwise, or took longer than `timeout_s`; holds its last lines.
    """
    began_s, busy_s = monotonic_s(), machine_busy_s()
    highest: dict[int, float] = {}
    before: set[int] = set()
    cpu_s = 0.0
    with running(argv, environ=environ, log=log) as process:
        while process.poll() is None:
            if monotonic_s() - began_s > timeout_s:
                raise BenchError(f"{' '.join(argv)}: took more than {timeout_s:.0f} s\n{tail(log)}")
            try:
                found = _highest_mib(process.pid)
                # A process that is just being started shares the memory of the one that starts it.
                highest |= {pid: mib for pid, mib in found.items() if pid in before}
                before = set(found)
                cpu_s = tree_cpu_s(process.pid)
            except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
            try:
                process.wait(EVERY_S)
            except subprocess.TimeoutExpired:
                continue
    seconds = monotonic_s() - began_s
    if process.returncode not in codes:
        raise BenchError(f"{' '.join(argv)} ended with {process.returncode}\n{tail(log)}")
    others_s = max(0.0, machine_busy_s() - busy_s - cpu_s)
    return Watched(
        seconds=seconds,
        peak_rss_mib=sum(highest.values()),
        cpu_s=cpu_s,
        other_cpu_percent=100 * others_s / (seconds * (psutil.cpu_count() or 1)),
    )


def _highest_mib(pid: int) -> dict[int, float]:
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    found = {}
    for one in family:
        status = Path(f"/proc/{one.pid}/status").read_text(encoding="utf-8")
        # One that has ended and was not awaited yet has no memory.
        if match := _HIGHEST.search(status):
            found[one.pid] = int(match[1]) / 1024
    return found
