"""Processes of a benchmark, and a submitting process that does not answer."""

import os
import sys
from pathlib import Path

import psutil
import pytest

from tests.bench.errors import BenchError
from tests.bench.launching import run, running
from tests.bench.plan import Case
from tests.bench.submit.process import ask

ECHO = """
import sys
for line in sys.stdin:
    print('{"requests": 3, "seconds": 0.5, "took_ms": [1.5]}', flush=True)
"""
MUTE = "import sys; sys.stdin.read()"


def order(code: str, folder: Path, *, watched_pid: int, timeout_s: float = 20.0) -> object:
    argv = (sys.executable, "-c", code)
    with running(argv, environ=os.environ, log=folder / "log", talks=True) as process:
        return ask(
            process,
            Case(),
            count=3,
            seconds=0.0,
            timeout_s=timeout_s,
            watched_pid=watched_pid or process.pid,
        )


def test_an_order_is_answered(tmp_path: Path) -> None:
    answer = order(ECHO, tmp_path, watched_pid=os.getpid())
    assert str(answer) == "Answer(requests=3, seconds=0.5, took_ms=[1.5])"


def test_a_process_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no answer"):
        order(MUTE, tmp_path, watched_pid=os.getpid(), timeout_s=0.2)


def test_a_process_that_ends_instead_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="submitting process ended"):
        order("input()", tmp_path, watched_pid=os.getpid())


def test_a_worker_that_ends_is_noticed(tmp_path: Path) -> None:
    with (
        running((sys.executable, "-c", ""), environ=os.environ, log=tmp_path / "log") as worker,
        pytest.raises(BenchError, match="worker ended"),
    ):
        order(MUTE, tmp_path, watched_pid=worker.pid)


def test_what_was_started_ends_with_the_block(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import time; time.sleep(60)")
    with running(argv, environ=os.environ, log=tmp_path / "log") as process:
        assert psutil.pid_exists(process.pid)
    assert process.returncode is not None


def test_a_command_that_fails_shows_what_it_said(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import sys; sys.exit('no such thing')")
    with pytest.raises(BenchError, match="no such thing"):
        run(argv, environ=os.environ, log=tmp_path / "log", timeout_s=20)
