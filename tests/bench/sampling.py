"""Where the CPU goes: py-spy samples a process from outside while a case runs.

For developers: py-spy must be on the `PATH` and allowed to read other processes. Only what holds
the interpreter lock is counted: shares are shares of Python, without the time in system calls.
Children and servers are not sampled.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.errors import BenchError

SAMPLES_PER_S = 200
LINE_NUMBER = re.compile(r":\d+\)$")
STOP_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Share:
    """A function's part of the samples: by itself, and with what it called, in percent."""

    function: str
    own: float
    total: float


@contextmanager
def sampled(pid: int, raw: Path) -> Iterator[None]:
    """Sample a process during the block; `raw` gets its stacks, one a line with its count.

    Raises:
        BenchError: there is no py-spy.
    """
    program = shutil.which("py-spy")
    if program is None:
        raise BenchError("--profile needs py-spy: install it with pip, anywhere on the PATH")
    options = ("--gil", "--format", "raw", "--threads", "--rate", str(SAMPLES_PER_S))
    with raw.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            (program, "record", "--pid", str(pid), *options, "--output", str(raw)),
            stdout=log,
            stderr=log,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(STOP_WITHIN_S)


def shares(stacks: Iterable[str]) -> list[Share]:
    """Return the share of each function, the costliest by itself first.

    Args:
        stacks: lines of frames from the outermost, with `;` between them, and a count.

    >>> shares(["thread (1);run (a.py:3);send (b.py:7) 3", "thread (1);run (a.py:4) 1"])[1]
    Share(function='run (a.py)', own=25.0, total=100.0)
    """
    own: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for line in stacks:
        stack, _, text = line.rpartition(" ")
        frames = [LINE_NUMBER.sub(")", frame) for frame in stack.split(";")]
        own[frames[-1]] += int(text)
        for frame in set(frames):
            total[frame] += int(text)
    whole = sum(own.values()) / 100
    found = [Share(name, own[name] / whole, total[name] / whole) for name in total]
    return sorted(found, key=lambda share: share.own, reverse=True)


def write_shares(raw: Path) -> Path | None:
    """Write the shares of a file of stacks beside it; return where, None without samples."""
    stacks = raw.read_text(encoding="utf-8").splitlines() if raw.is_file() else []
    if not stacks:
        return None
    lines = [f"{one.own:6.1f} {one.total:6.1f}  {one.function}\n" for one in shares(stacks)]
    target = raw.with_suffix(".txt")
    target.write_text("".join([" own %  all %\n", *lines]), encoding="utf-8")
    return target
