"""Run all tests in three lanes beside each other, then look a second time at the few that failed.

Most tests wait: for servers, leases, deaths. They leave half of two processors unused, however many
of them run side by side. Spark does not wait. Its tests are in a lane of their own, which the
system gives little while the others want the processors, so that these do not miss their time
limits. It has one process: a second one would start a second Spark, which is slow until Java has
compiled it. So that all lanes end together, others that compute and are not in a hurry stand back
too.

A test that fails beside others and passes alone depends on the speed of the machine. That is a
fault of the test or of the product, and the last lines of the output name it; but it does not
refuse a change that did not cause it. So at most `SECOND_LOOK_LIMIT` failed tests run again, each
`TIMES_ALONE` times with nothing beside it. One failure of these and the whole run has failed.

However it is ended, by a signal or by itself, nothing goes on that a lane or a test has started: it
adopts what they leave behind.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from onceward.servers.keeper_process import adopt_orphans, children, die_with


@dataclass(frozen=True, slots=True)
class Lane:
    """Tests that run beside those of the other lanes.

    Args:
        name: of its files.
        arguments: to pytest: which tests, and in how many processes.
        niceness: how far it stands back when another lane wants the processors, 0 to 19.
    """

    name: str
    arguments: Sequence[str]
    niceness: int = 0

    @property
    def folder(self) -> Path:
        """Its output and pytest's cache: two runs of pytest would overwrite each other's."""
        return OUTPUT / self.name

    @property
    def log(self) -> Path:
        """Everything that pytest has printed."""
        return self.folder / "output.txt"

    @property
    def failed_file(self) -> Path:
        """Where pytest names the failed tests."""
        return self.folder / "v/cache/lastfailed"


# Commands, pages and figures, which mostly compute and have long time limits.
PATIENT = tuple(
    f"tests/{room}"
    for room in (
        *("face", "how_to", "tutorials", "demo", "bench", "simulation", "fuzz"),
        *("consumer/console", "producer_client/http/test_frameworks.py"),
    )
)
SPARK = "tests/spark_audit"
LANES = (
    Lane("workers", ("-n", "6", *(f"--ignore={room}" for room in (SPARK, *PATIENT)))),
    Lane("spark", ("-n", "1", SPARK), niceness=3),
    Lane("patient", ("-n", "3", *PATIENT), niceness=5),
)
# One test in a thousand: a machine that is slow throughout, twice as slow as ours, failed four.
SECOND_LOOK_LIMIT = 8
TIMES_ALONE = 3
OUTPUT = Path("build/tests")
# Linux shares the processors out among sessions, by a niceness that a session has as a whole.
SESSION_NICENESS = Path("/proc/self/autogroup")
ONE_NICENESS_S = 0.1
# A keeper asked to end stops its servers within this, and removes their folder.
ORPHANS_LIMIT_S = 15.0
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PYTEST = (sys.executable, "-m", "pytest")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the lanes; return 0 when every test passed, or passed at the second look."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", help="a marker expression, such as 'not long'")
    kind = parser.parse_args(arguments).kind
    shutil.rmtree(OUTPUT, ignore_errors=True)
    codes = _run_lanes(kind)
    if not any(codes):
        return 0
    for lane, code in zip(LANES, codes, strict=True):
        print(how_to_repeat(lane, code, kind), end="", flush=True)
    failed = sorted(test for lane in LANES for test in failed_tests(lane.failed_file))
    if not may_look_again(codes, failed):
        return 1
    print(f"\nA second look, alone, at: {', '.join(failed)}", flush=True)
    second_look = (*_PYTEST, "-v", *failed)
    if any(_ended(subprocess.Popen(second_look))[0] for _ in range(TIMES_ALONE)):
        return 1
    print(f"UNSTABLE, failed once and passed {TIMES_ALONE} times alone: {', '.join(failed)}")
    return 0


def may_look_again(codes: Sequence[int], failed: Sequence[str]) -> bool:
    """Say whether the lanes failed by single tests, and by few of them.

    Args:
        codes: the exit codes of the lanes.
        failed: the ids of the failed tests, as pytest names them.
    """
    by_tests_alone = {*codes} <= {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
    return by_tests_alone and 0 < len(failed) <= SECOND_LOOK_LIMIT


def how_to_repeat(lane: Lane, code: int, kind: str) -> str:
    """Return lines about a lane that ended by something else than a test, with its command."""
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return ""
    named = {one.value: one.name for one in pytest.ExitCode}
    named |= {-one.value: one.name for one in signal.Signals}
    command = shlex.join(
        (sys.executable, "-m", "tests.stack", "--lean", "--", *_command(lane, kind))
    )
    return (
        f"\nThe lane {lane.name!r} ended by {named.get(code, code)}, so that tests were not run. "
        f"What it said is above. The lane alone:\n{command}\n"
    )


def failed_tests(file: Path) -> list[str]:
    """Return the ids of the tests that pytest's cache names as failed."""
    return sorted(json.loads(file.read_text())) if file.exists() else []


def _run_lanes(kind: str) -> list[int]:
    """Run all lanes; show the first one's output as it comes, the others' when all have ended."""
    first, *others = LANES
    with ExitStack() as stack:
        running = [stack.enter_context(_running(lane, kind)) for lane in others]
        with_us = partial(die_with, os.getpid(), signal.SIGTERM)
        shown = subprocess.Popen(_command(first, kind), preexec_fn=with_us)
        codes = _ended(shown, *running)
    for lane in others:
        print(lane.log.read_text(errors="replace"), flush=True)
    return codes


def _ended(*processes: subprocess.Popen[bytes]) -> list[int]:
    """Return the exit codes of processes when all have ended.

    What we have adopted is waited for as it ends: a test sees that no process of its own is left,
    and a zombie is one.
    """
    of_pid = {one.pid: one for one in processes}
    while any(one.returncode is None for one in processes):
        # The zombie is left: who has started it takes its code.
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if ended is not None and ended.si_pid not in of_pid:
            os.waitpid(ended.si_pid, 0)
        elif ended is not None:
            of_pid[ended.si_pid].wait()
    return [one.returncode for one in processes]


@contextmanager
def _running(lane: Lane, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a lane in the background, in a session of its own, and end it on the way out."""
    lane.folder.mkdir(parents=True)
    with lane.log.open("wb") as log:
        process = subprocess.Popen(
            _command(lane, kind),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=partial(_stand_back, lane.niceness, os.getpid()),
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()


def _command(lane: Lane, kind: str) -> tuple[str, ...]:
    cache = f"cache_dir={lane.folder}"
    return (*_PYTEST, "-o", cache, "--dist", "worksteal", "-m", kind, *lane.arguments)


def _stand_back(niceness: int, parent_pid: int) -> None:
    # A run that is told to stop, or killed, takes its lanes with it.
    die_with(parent_pid, signal.SIGTERM)
    os.nice(niceness)
    while SESSION_NICENESS.exists():
        try:
            SESSION_NICENESS.write_text(str(niceness))
        except BlockingIOError:
            # Of all who are not root together the kernel takes one of these in a tenth of a second.
            time.sleep(ONE_NICENESS_S)
        else:
            return


def run() -> NoReturn:
    """Run the lanes in a process of their own, and end with them all that they have started."""
    adopt_orphans()
    for one in ENDING:
        signal.signal(one, _asked_to_end)
    try:
        sys.exit(main())
    finally:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        end_orphans()


def _asked_to_end(number: int, _: object) -> NoReturn:
    # Told again by make and by the terminal: the first time is enough.
    for one in ENDING:
        signal.signal(one, signal.SIG_IGN)
    raise SystemExit(128 + number)


def end_orphans() -> None:
    """Ask the processes to end that the lanes have left; kill those that have not after a while."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for sent in (signal.SIGTERM, signal.SIGKILL):
        told: set[int] = set()
        deadline_s = time.monotonic() + ORPHANS_LIMIT_S
        while (left_s := deadline_s - time.monotonic()) > 0:
            for pid in {*children()} - told:
                os.kill(pid, sent)
                told.add(pid)
            try:
                ended, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not ended:
                # One that is adopted meanwhile tells nobody.
                signal.sigtimedwait({signal.SIGCHLD}, min(left_s, 0.5))


if __name__ == "__main__":
    run()
