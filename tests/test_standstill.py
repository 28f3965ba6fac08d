"""The measure that takes a slow machine out of the time that something took."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests import rounds
from tests.eventually import eventually
from tests.rounds import fastest_s, in_time
from tests.standstill import Standstill, standing_still

STOOD_S = 1.0
# Says how long it stood still, as it saw it, and how long it was.
MEASURED = """
import sys, time
from tests.standstill import standing_still
began_s = time.monotonic()
with standing_still() as stood:
    print("ready", flush=True)
    sys.stdin.readline()
took_s = time.monotonic() - began_s
print(stood.total_s, stood.longest_s, took_s)
"""


def test_what_a_process_stood_still_is_told_to_it() -> None:
    command = (sys.executable, "-c", MEASURED)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
        os.kill(one.pid, signal.SIGSTOP)
        time.sleep(STOOD_S)  # it stands still for so long
        os.kill(one.pid, signal.SIGCONT)
        out, _ = one.communicate("\n")
    total_s, longest_s, took_s = map(float, out.split())
    assert STOOD_S * 0.9 < longest_s <= took_s
    assert STOOD_S * 0.9 < total_s <= took_s


@contextmanager
def stood_half_a_second() -> Iterator[Standstill]:
    stood = Standstill()
    stood.total_s = 0.5
    yield stood


def test_what_the_machine_stood_still_is_taken_off_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "standing_still", stood_half_a_second)
    assert fastest_s(iter((3.0, 2.0, 1.0)).__next__, enough_s=1.0, rounds=2) == 1.5
    assert fastest_s(iter((3.0, 1.5)).__next__, enough_s=1.0) == 1.0
    clock = iter((0.0, 1.5, 0.0, 1.0))
    monkeypatch.setattr(rounds, "monotonic_s", clock.__next__)
    assert in_time(iter("ab").__next__, limit_s=0.6) == "b"
    clock = iter((0.0, 1.5) * 2)
    monkeypatch.setattr(rounds, "monotonic_s", clock.__next__)
    with pytest.raises(AssertionError, match=r"not within 0\.6 s, but in 1 s"):
        in_time(str, limit_s=0.6, rounds=2)


def test_a_block_that_fails_leaves_no_thread() -> None:
    def fails() -> None:
        with standing_still():
            raise KeyError

    before = set(sys._current_frames())
    with pytest.raises(KeyError):
        fails()
    eventually(lambda: set(sys._current_frames()) <= before)
