"""Whether an audit is over is said where it is proved, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from spark_audit.output.holder import Holder


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that runs until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as started:
        yield started
        started.kill()


def _of(process: subprocess.Popen[bytes]) -> Holder:
    """Return an audit by this process alone."""
    found = Holder.here(process.pid)
    return replace(found, processes=found.processes[1:])


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_what_was_written_is_read_again() -> None:
    written = Holder.here(os.getppid())
    assert [pid for pid, _ in written.processes] == [os.getpid(), os.getppid()]
    assert Holder.of_text(written.as_text()) == written
    assert not written.is_gone


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"id": "x"}', '{"processes": [1]}'])
def test_what_says_nothing_is_nobodys(text: str) -> None:
    assert Holder.of_text(text) is None


def test_it_is_gone_when_all_of_its_processes_are(process: subprocess.Popen[bytes]) -> None:
    holders = (_of(process), Holder.here(process.pid))
    assert [one.is_gone for one in holders] == [False, False]
    _end(process)
    assert [one.is_gone for one in holders] == [True, False]


def test_a_process_that_nobody_reaps_is_gone(process: subprocess.Popen[bytes]) -> None:
    holder = _of(process)
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert holder.is_gone


def test_another_process_of_its_number_is_not_it(process: subprocess.Popen[bytes]) -> None:
    holder = _of(process)
    pid, start = holder.processes[0]
    assert replace(holder, processes=((pid, start - 1),)).is_gone


@pytest.mark.parametrize(
    "changes", [{"host": "elsewhere"}, {"boot": "another"}, {"boot": ""}, {"space": 1}]
)
def test_of_what_is_not_seen_from_here_nothing_is_proved(
    process: subprocess.Popen[bytes], changes: dict[str, str | int]
) -> None:
    holder = _of(process)
    _end(process)
    assert holder.is_gone
    assert not replace(holder, **changes).is_gone  # type: ignore[arg-type]


def test_a_process_of_which_nothing_is_to_be_read_is_not_proved_gone() -> None:
    # Numbers end far below.
    assert Holder.here(2**31 - 1).boot == ""
