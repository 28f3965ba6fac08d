"""`onceward dev` as a process in a folder of its own, and its printed lines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.eventually import HANG_S, eventually
from tests.face.conftest import ROOT
from tests.kit.settings import environment

# A fresh project has no journal's tables, no topics, and perhaps no broker.
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Dev:
    """A session.

    Attributes:
        folder: of the project.
        environ: of its commands.
    """

    folder: Path
    environ: dict[str, str]
    process: subprocess.Popen[bytes]

    @property
    def output(self) -> Path:
        """Where its lines go."""
        return self.folder / "output.txt"

    def shows(self, text: str, *, times: int = 1) -> bool:
        """Wait until its output has a text so many times."""

        def has_it() -> bool:
            printed = self.output.read_text()
            assert self.process.poll() is None, printed
            return printed.count(text) >= times

        try:
            return eventually(has_it, timeout_s=LIMIT_S)
        except TimeoutError as error:
            raise AssertionError(f"{text!r} is not in:\n{self.output.read_text()}") from error

    def ends(self, number: signal.Signals) -> int:
        """Send it a signal, and return its exit code when no process of it is left."""
        family = self.family()
        os.kill(self.process.pid, number)
        code = self.process.wait(HANG_S)
        _, alive = psutil.wait_procs(family, timeout=HANG_S)
        assert alive == []
        return code

    def family(self) -> list[psutil.Process]:
        """Return all processes that it started."""
        return psutil.Process(self.process.pid).children(recursive=True)


@contextmanager
def running_dev(folder: Path, *arguments: str, **settings: str) -> Iterator[Dev]:
    """Run `onceward dev` in a folder until the block is left."""
    environ = environment(PYTHONPATH=str(ROOT), **settings)
    argv = (sys.executable, "-m", "onceward", "dev", *arguments)
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(argv, cwd=folder, env=environ, stdout=output, stderr=output)
    try:
        yield Dev(folder, environ, process)
    finally:
        process.kill()
        process.wait()


def client(dev: Dev, *arguments: str) -> dict[str, object]:
    """Run a command of `onceward client` beside a session, and return its JSON."""
    done = subprocess.run(
        (sys.executable, "-m", "onceward", "client", *arguments, "--json"),
        cwd=dev.folder,
        env=dev.environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{dev.output.read_text()}"
    answer: dict[str, object] = json.loads(done.stdout)
    return answer
