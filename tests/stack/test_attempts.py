"""A download that fails once is tried again, one that fails always is told."""

import sys
from pathlib import Path

from onceward.servers.attempts import ATTEMPTS, last_lines, run_with_retries

# Fails until it has been called as often as its second argument says.
_COUNTING = """
import sys, pathlib
calls = pathlib.Path(sys.argv[1])
calls.write_text(calls.read_text() + "x" if calls.exists() else "x")
print("call", len(calls.read_text()))
sys.exit(len(calls.read_text()) < int(sys.argv[2]))
"""


def _call(calls: Path, succeeds_at: int) -> tuple[int, str]:
    argv = (sys.executable, "-c", _COUNTING, str(calls), str(succeeds_at))
    done = run_with_retries(argv, timeout_s=30, pause_s=0)
    return done.returncode, done.stdout


def test_a_command_that_fails_once_is_run_again(tmp_path: Path) -> None:
    assert _call(tmp_path / "calls", succeeds_at=2) == (0, "call 2\n")


def test_a_command_that_always_fails_ends_with_its_last_attempt(tmp_path: Path) -> None:
    assert _call(tmp_path / "calls", succeeds_at=99) == (1, f"call {ATTEMPTS}\n")


def test_a_command_that_succeeds_runs_once(tmp_path: Path) -> None:
    assert _call(tmp_path / "calls", succeeds_at=1) == (0, "call 1\n")


def test_only_the_last_lines_are_shown() -> None:
    assert last_lines("\n".join(map(str, range(30))), count=2) == "28\n29"
