"""A second look is for few tests that failed by themselves, and forgives nothing that repeats."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import lanes as lanes_module
from tests.eventually import eventually
from tests.lanes import SECOND_LOOK_LIMIT, Lane, failed_tests, how_to_repeat, may_look_again


@pytest.mark.parametrize(
    ("codes", "failed", "may"),
    [
        ([0, 1], ["a"], True),
        ([1, 1], ["a"] * SECOND_LOOK_LIMIT, True),
        ([1, 0], ["a"] * (SECOND_LOOK_LIMIT + 1), False),
        # A run that was interrupted, or whose collection failed, has not run everything.
        ([2, 1], ["a"], False),
        ([3, 0], ["a"], False),
        ([1, -9], ["a"], False),
        ([1, 0], [], False),
    ],
)
def test_few_failed_tests_are_looked_at_again(
    codes: list[int], failed: list[str], may: bool
) -> None:
    assert may_look_again(codes, failed) is may


def test_the_cache_of_pytest_names_the_failed(tmp_path: Path) -> None:
    file = tmp_path / "lastfailed"
    assert failed_tests(file) == []
    file.write_text(json.dumps({"tests/b.py::two[x]": True, "tests/a.py::one": True}))
    assert failed_tests(file) == ["tests/a.py::one", "tests/b.py::two[x]"]


_FIXED = "def test_fixed(): pass\n"
_ALWAYS = "def test_always(): assert False\n"
# Fails the first time, as long as its mark is not there.
_ONCE = """
from pathlib import Path

def test_once():
    mark = Path("mark")
    seen = mark.exists()
    mark.touch()
    assert seen
"""


# Each run of the lanes walks the good way; one failure that repeats is enough beside it.
@pytest.mark.parametrize(
    ("source", "code", "lane"),
    [
        *(pytest.param(_FIXED, 0, lane, marks=pytest.mark.long) for lane in (0, 1)),
        *(pytest.param(_ONCE, 0, lane, marks=pytest.mark.long) for lane in (0, 1)),
        pytest.param(_ALWAYS, 1, 0, marks=pytest.mark.long),
        (_ALWAYS, 1, 1),
    ],
)
def test_a_failure_that_repeats_fails_the_run_in_whichever_lane(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    source: str,
    code: int,
    lane: int,
) -> None:
    sources = [_FIXED, _FIXED]
    sources[lane] = source
    for number, text in enumerate(sources):
        (tmp_path / f"test_{number}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    # The plugins of others' packages take two thirds of the time of such a short run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    one = ("-p", "xdist", "-n", "0")
    lanes = tuple(Lane(f"{number}", (*one, f"test_{number}.py"), number) for number in (0, 1))
    monkeypatch.setattr(lanes_module, "LANES", lanes)
    assert lanes_module.main(["not long"]) == code
    printed = capfd.readouterr().out
    unstable = f"UNSTABLE, failed once and passed 3 times alone: test_{lane}.py::test_once"
    assert (unstable in printed) == (source is _ONCE)
    assert ("test_always" in printed) == (source is _ALWAYS)


def test_a_lane_that_ended_by_itself_is_named_with_the_command_that_repeats_it() -> None:
    lane = Lane("workers", ("-n", "4", "--ignore=tests/spark_audit"))
    assert how_to_repeat(lane, 0, "not long") == how_to_repeat(lane, 1, "not long") == ""
    said = how_to_repeat(lane, 3, "not long")
    assert "The lane 'workers' ended by INTERNAL_ERROR" in said
    assert "-m tests.stack --lean -- " in said
    assert "-m 'not long' -n 4 --ignore=tests/spark_audit" in said
    assert "ended by SIGKILL" in how_to_repeat(lane, -9, "not long")


# Each leaves a server that is deaf to SIGTERM, in a session of its own.
_HANGS = """
import subprocess, sys, time

def test_hangs():
    deaf = "import pathlib, os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    deaf += "pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", deaf, "NAME.part"], start_new_session=True)
    time.sleep(600)
"""
_LANES = """
from tests import lanes
lanes.ORPHANS_LIMIT_S = 1.0
lanes.LANES = tuple(lanes.Lane(one, ("-p", "xdist", "-n", "1", f"test_{one}.py")) for one in "ab")
lanes.run()
"""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_all_that_lanes_and_tests_have_started_ends_with_a_run_that_is_told_to_end(
    tmp_path: Path, number: signal.Signals
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(_HANGS.replace("NAME", name))
    run = _start_lanes(tmp_path)
    servers = [tmp_path / "a.part", tmp_path / "b.part"]
    try:
        eventually(lambda: all(one.exists() and one.read_text() for one in servers), timeout_s=60)
        run.send_signal(number)
        assert run.wait(60) == 128 + number
    finally:
        run.kill()
    assert [one for one in servers if Path("/proc", one.read_text()).exists()] == []


_ORPHANED = """
import subprocess, time
from pathlib import Path

def test_orphaned():
    command = ["sh", "-c", "sleep 0.2 > /dev/null & echo $!"]
    pid = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    until_s = time.monotonic() + 30
    while Path("/proc", pid).exists() and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not Path("/proc", pid).exists()
"""


@pytest.mark.long
def test_what_a_test_has_left_behind_is_no_zombie_when_it_ends(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(_ORPHANED)
    assert _start_lanes(tmp_path).wait(120) == 0


def _start_lanes(folder: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "PYTHONPATH": str(Path.cwd()),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, "-c", _LANES, "not long"]
    return subprocess.Popen(command, cwd=folder, env=environment)


class BusyFile:
    """A file of the kernel's that takes nothing at first, as from who is not root."""

    def __init__(self) -> None:
        self.refusals = 2
        self.taken = ""

    def exists(self) -> bool:
        return True

    def write_text(self, text: str) -> None:
        if self.refusals:
            self.refusals -= 1
            raise BlockingIOError
        self.taken = text


def test_a_lane_stands_back_also_where_the_kernel_takes_no_niceness_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = BusyFile()
    monkeypatch.setattr(lanes_module, "SESSION_NICENESS", file)
    monkeypatch.setattr(lanes_module, "ONE_NICENESS_S", 0.0)
    monkeypatch.setattr(lanes_module, "die_with", lambda *_: None)
    monkeypatch.setattr(os, "nice", lambda _: 0)
    lanes_module._stand_back(3, 1)
    assert (file.taken, file.refusals) == ("3", 0)
