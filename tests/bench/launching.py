"""Processes of a benchmark: they write a log, and end with the block or with us."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil

from onceward.servers.errors import tail
from onceward.servers.keeper_process import die_with
from tests.bench.errors import BenchError

ROOT = Path(__file__).parents[2]
STOP_WITHIN_S = 40.0


@contextmanager
def running(
    argv: Sequence[str], *, environ: Mapping[str, str], log: Path, talks: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in the checkout until the block is left; what it prints goes to `log`.

    Args:
        talks: its standard input and output are pipes to us, and the end of its input ends it.
            Any other gets SIGTERM. What is still there after `STOP_WITHIN_S` is killed with all
            its children.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            cwd=ROOT,
            env=environ,
            bufsize=0,
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else output,
            stderr=output,
            preexec_fn=partial(die_with, os.getpid(), signal.SIGTERM),
        )
    try:
        yield process
    finally:
        if process.stdin is None:
            process.terminate()
        else:
            process.stdin.close()
        _await_end(process)
        if process.stdout is not None:
            process.stdout.close()


def run(argv: Sequence[str], *, environ: Mapping[str, str], log: Path, timeout_s: float) -> None:
    """Run a program in the checkout to its end.

    Raises:
        BenchError: it failed, or took longer than `timeout_s`; ends with its last lines.
    """
    with log.open("ab") as output:
        try:
            subprocess.run(
                argv,
                cwd=ROOT,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_s,
                check=True,
            )
        except subprocess.SubprocessError as error:
            raise BenchError(f"{' '.join(argv)}: {error}\n{tail(log)}") from error


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for orphan in family:
            if orphan.is_running():
                orphan.kill()
