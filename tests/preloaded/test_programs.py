"""A forked program is in a shell what the installed one is."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.eventually import eventually
from tests.preloaded.programs import INSTALLED, forked_programs

LIMIT_S = 30.0


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """Yield the folder of the forked programs."""
    with forked_programs() as folder:
        yield folder


def typed(line: str, folder: Path, programs: Path) -> subprocess.CompletedProcess[str]:
    """Type a line in a folder; return its code and what it has printed."""
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    environ = {"PATH": path, "COLUMNS": "100", "ONCEWARD_AUDIT__URL": "no setting"}
    return subprocess.run(
        ("bash", "-c", line),
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


@pytest.mark.parametrize(
    "line",
    [
        *(
            pytest.param(line, marks=pytest.mark.long)
            for line in (
                "onceward init --topic orders; echo $?",
                "onceward-client send - < /dev/null; echo $?",
                "echo y | onceward-dlq discard a --because b --config nowhere.toml 2>&1 | cat",
            )
        ),
        "onceward-worker run --config nowhere.toml || echo it failed",
    ],
)
def test_it_says_and_ends_as_the_installed_one(line: str, programs: Path, tmp_path: Path) -> None:
    both = []
    for place in (programs, INSTALLED):
        folder = tmp_path / place.name
        folder.mkdir()
        done = typed(line, folder, place)
        # It names itself as Python's module, which it is.
        errors = done.stderr.replace("python -m producer_client", "onceward-client")
        both.append((done.stdout, errors, sorted(one.name for one in folder.iterdir())))
    assert both[0] == both[1]
    assert any(both[0])


def test_who_ends_it_ends_its_command(programs: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "settings.toml")
    argv = (str(programs / "onceward-worker"), "check", "--config", "settings.toml")
    with subprocess.Popen(argv, cwd=tmp_path) as asking:
        running = psutil.Process()

        def waits() -> list[psutil.Process]:
            below = running.children(recursive=True)
            return [one for one in below if one.pid != asking.pid and is_in(one, tmp_path)]

        (command,) = eventually(waits, timeout_s=LIMIT_S)
        asking.send_signal(signal.SIGKILL)
        eventually(lambda: not command.is_running(), timeout_s=LIMIT_S)
    assert asking.returncode == -signal.SIGKILL


def is_in(process: psutil.Process, folder: Path) -> bool:
    """Say whether a process works in a folder."""
    try:
        return Path(process.cwd()) == folder
    except psutil.Error:
        return False
