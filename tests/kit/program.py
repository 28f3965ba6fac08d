"""A program of ours as a process: its log read as events, signals, its exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from feedback.errors import NotAvailable
from onceward.servers.errors import tail
from onceward.servers.keeper import Keeper, ServerCommand
from tests import preloaded
from tests.eventually import eventually
from tests.failure_report import show_on_failure

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 60.0
END_LIMIT_S = 60.0
# Signals after which an end is no surprise.
ENDING = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)

Event = dict[str, Any]


class Program(ABC):
    """One that runs and logs into a file; how it is run is for those below.

    Attributes:
        pid: of its main process.
        log: the file for what it writes to stderr.
        name: of its log, for messages.
        asked_to_end: whether a signal was sent that ends it.
    """

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self.name = log.stem
        self.asked_to_end = False

    @property
    @abstractmethod
    def exit_code(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs."""

    @abstractmethod
    def ended(self, *, within_s: float) -> int | None:
        """Return its exit code when it has ended, None when it still runs after so long."""

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.exit_code is None

    # its log -------------------------------------------------------------------------------

    @property
    def stderr(self) -> str:
        """Everything that it and its children have logged."""
        return self.log.read_text(errors="replace")

    @property
    def has_spoken(self) -> bool:
        """Whether it has logged anything."""
        return self.log.stat().st_size > 0

    @property
    def tail(self) -> str:
        """The last lines of its log."""
        return tail(self.log)

    @property
    def lines(self) -> list[str]:
        """The whole lines of its log so far."""
        return _whole_lines(self.log)

    def events(self, name: str) -> list[Event]:
        """Return the events of this name that it has logged so far."""
        # Most lines are others': to parse all of them, many times a second, takes a processor.
        marked = [line for line in self.lines if f'"{name}"' in line and line.startswith("{")]
        found = (json.loads(line) for line in marked)
        return [event for event in found if event.get("event") == name]

    def told(self, name: str, *, timeout_s: float = START_LIMIT_S) -> Event:
        """Return the first event of this name, waiting for it.

        Raises:
            NotAvailable: it ended, or did not log it in time; ends with the end of its log.
        """

        def first() -> Event | None:
            # Asked before the log is read: what it logged last counts.
            code = self.exit_code
            found = self.events(name)
            if not found and code is not None:
                raise NotAvailable(f"{self.name} ended with {code}:\n{self.tail}")
            return found[0] if found else None

        try:
            found = eventually(first, timeout_s=timeout_s, what=name)
        except TimeoutError as error:
            raise NotAvailable(f"{self.name}: {error}\n{self.tail}") from error
        assert found is not None
        return found

    # its processes -------------------------------------------------------------------------

    def family(self) -> list[psutil.Process]:
        """Return it and every process below it; nothing when it has ended."""
        try:
            me = psutil.Process(self.pid)
            return [me, *me.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def children(self) -> list[int]:
        """Return the process ids of its children that run handlers."""
        return [one.pid for one in self.family()[1:] if "spawn_main" in _words_of(one)]

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the main process alone; one that has ended gets none."""
        self.asked_to_end |= number in ENDING
        # It may end after it was asked whether it lives.
        if self.is_alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self) -> None:
        """Ask it to end, and wait for nothing."""
        self.send(signal.SIGTERM)

    def wait(self, timeout_s: float = END_LIMIT_S) -> int:
        """Return its exit code when it has ended.

        Raises:
            NotAvailable: it still runs after `timeout_s` seconds; ends with the end of its log.
        """
        code = self.ended(within_s=timeout_s)
        if code is None:
            raise NotAvailable(f"{self.name} still runs after {timeout_s:g} s:\n{self.tail}")
        return code

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End it in order and return its exit code."""
        self.send(number)
        return self.wait()

    def kill(self) -> None:
        """Kill it, if it still runs, and return when it is gone; its children go with it."""
        self.send(signal.SIGKILL)
        self.wait()


class StartedProgram(Program):
    """One in a session of its own, which the test that started it ends.

    Args:
        argv: this interpreter, "-m", a module of ours, and its arguments.
        log: the file for what it writes to stderr.
        environ: all of its environment.
        output: the file for what it prints; None for nothing.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        log: Path,
        environ: Mapping[str, str],
        output: Path | None = None,
    ) -> None:
        with log.open("wb") as errors, (output or Path(os.devnull)).open("wb") as printed:
            self._process = preloaded.start(
                argv,
                environ=environ,
                stdout=printed.fileno(),
                stderr=errors.fileno(),
            )
        super().__init__(self._process.pid, log)
        self._output = output
        show_on_failure(self)

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs."""
        return self._process.poll()

    def printed(self) -> list[dict[str, Any]]:
        """Return the lines of JSON that it has printed so far."""
        assert self._output is not None, "nobody keeps what it prints"
        return [json.loads(line) for line in _whole_lines(self._output)]

    def send_to_group(self, number: signal.Signals) -> None:
        """Send a signal to the main process and all its children, as a terminal does."""
        os.killpg(self.pid, number)

    def ended(self, *, within_s: float) -> int | None:
        """Return its exit code when it has ended, None when it still runs after so long."""
        try:
            return self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return None


class KeptProgram(Program):
    """One that a keeper owns: it ends no later than the process that asked for it.

    Args:
        keeper: starts it.
    """

    def __init__(self, keeper: Keeper, command: ServerCommand) -> None:
        self._keeper = keeper
        super().__init__(keeper.start(command), command.log)

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs."""
        return self._keeper.exit_code(self.pid)

    def ended(self, *, within_s: float) -> int | None:
        """Return its exit code when it has ended, None when it still runs after so long."""
        with suppress(TimeoutError):
            eventually(lambda: not self.is_alive, timeout_s=within_s, what=f"end of {self.name}")
        return self.exit_code


def _whole_lines(file: Path) -> list[str]:
    # The last line may still be in the middle of being written.
    text = file.read_text(errors="replace")
    return text.split("\n")[:-1]


def _words_of(process: psutil.Process) -> str:
    """Return the command line of a process, nothing of one that has ended since it was found."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
