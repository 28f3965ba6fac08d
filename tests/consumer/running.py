"""A real worker as a process of its own: started, read, asked to end, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from tests import preloaded
from tests.eventually import eventually
from tests.failure_report import show_on_failure

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "consumer")
START_LIMIT_S = 60.0
END_LIMIT_S = 60.0
COMMAND_LIMIT_S = 60.0

Event = dict[str, Any]


def environment(**settings: str) -> dict[str, str]:
    """Return the environment without the servers that it names: a test's file names its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONCEWARD_")}
    return kept | settings


def command(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run `onceward-worker` to its end."""
    environ = environment(**settings)
    return preloaded.run((*COMMAND, *arguments), environ=environ, timeout_s=COMMAND_LIMIT_S)


class RunningWorker:
    """`onceward-worker run`, in a process group of its own, its log in a file.

    Args:
        config: its settings.
        log: the file for what it writes to stderr.
        settings: environment variables beside this process's own.
        argv: another command than that, without its settings.
    """

    def __init__(
        self,
        config: Path,
        *,
        log: Path,
        settings: Mapping[str, str],
        argv: Sequence[str] = (*COMMAND, "run"),
    ) -> None:
        self.log = log
        show_on_failure(self)
        with log.open("wb") as errors:
            self._process = preloaded.start(
                (*argv, "--config", str(config)),
                environ=environment(**settings),
                stderr=errors.fileno(),
            )
        self.pid = self._process.pid

    @property
    def stderr(self) -> str:
        """Everything that it and its children have logged."""
        return self.log.read_text(errors="replace")

    @property
    def worker_id(self) -> str:
        """The id under which it holds claims; known once it has started."""
        return str(self.told("worker.started")["worker_id"])

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def events(self, name: str) -> list[Event]:
        """Return the events of this name that it has logged so far."""
        lines = [line for line in self.stderr.splitlines() if line.startswith("{")]
        found = []
        for line in lines:
            try:
                event = json.loads(line)
            except ValueError:
                continue  # the line is still being written
            if event.get("event") == name:
                found.append(event)
        return found

    def told(self, name: str, *, timeout_s: float = START_LIMIT_S) -> Event:
        """Return the first event of this name, waiting for it."""

        def first() -> Event | None:
            found = self.events(name)
            assert found or self.is_alive, f"it ended with {self._process.returncode}:\n{self.tail}"
            return found[0] if found else None

        found = eventually(first, timeout_s=timeout_s, what=f"{name} of worker {self.pid}")
        assert found is not None
        return found

    @property
    def tail(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.stderr.splitlines()[-20:])

    def family(self) -> list[psutil.Process]:
        """Return it and every process below it."""
        me = psutil.Process(self.pid)
        return [me, *me.children(recursive=True)]

    def children(self) -> list[int]:
        """Return the process ids of its children that run handlers."""
        return [one.pid for one in self.family()[1:] if "spawn_main" in _words_of(one)]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the main process alone."""
        self._process.send_signal(number)

    def send_to_group(self, number: signal.Signals) -> None:
        """Send a signal to the main process and all its children, as a terminal does."""
        os.killpg(self.pid, number)

    def wait(self, timeout_s: float = END_LIMIT_S) -> int:
        """Return its exit code; negative for the signal that ended it."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {timeout_s} s:\n{self.tail}") from None

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it in order and return its exit code."""
        self.send(number)
        return self.wait()

    def kill(self) -> None:
        """Kill it, if it still runs; its children go with it."""
        self._process.kill()
        self._process.wait()


def _words_of(process: psutil.Process) -> str:
    """Return the command line of a process, nothing of one that has ended since it was found."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return sections of plain values as TOML."""
    lines: list[str] = []
    for name, section in sections.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {_toml_value(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_toml_value(one) for one in value) + "]"
    # JSON's text, numbers and booleans are TOML's as well.
    return json.dumps(value)
