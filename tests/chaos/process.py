"""Processes of a row: kept by a keeper, read through their logs, hurt by signals."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import psutil

from feedback.errors import NotAvailable
from tests.eventually import eventually
from tests.stack.errors import tail
from tests.stack.keeper import Command, Keeper

LOG_LINES = 12

Event = dict[str, Any]


class Process:
    """One started program.

    Args:
        keeper: owns it: it ends with the row, however that ends.
    """

    def __init__(self, keeper: Keeper, command: Command) -> None:
        self._keeper = keeper
        self._log = command.log
        self.name = command.log.stem
        self.pid = keeper.start(command)
        self.asked_to_end = False

    @property
    def exit_code(self) -> int | None:
        """What it ended with, negative for a signal; None while it runs."""
        return self._keeper.exit_code(self.pid)

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.exit_code is None

    @property
    def has_spoken(self) -> bool:
        """Whether it has logged anything."""
        return self._log.stat().st_size > 0

    @property
    def tail(self) -> str:
        """The last lines of its log."""
        return tail(self._log, LOG_LINES)

    @property
    def lines(self) -> list[str]:
        """The whole lines that it has written so far."""
        text = self._log.read_text(errors="replace")
        return text[: text.rfind("\n") + 1].splitlines()

    def events(self, name: str) -> list[Event]:
        """Return the events of this name that it has logged so far."""
        found = []
        mark = f'"{name}"'
        with self._log.open(errors="replace") as log:
            for line in log:
                # The last line may still be in the middle of being written.
                if mark in line and line.startswith("{") and line.endswith("}\n"):
                    event = json.loads(line)
                    if event.get("event") == name:
                        found.append(event)
        return found

    def told(self, name: str, *, timeout_s: float) -> Event:
        """Return the first event of this name, waiting for it.

        Raises:
            NotAvailable: it ended, or did not log it in time; ends with the end of its log.
        """

        def first() -> Event | None:
            found = self.events(name)
            if not found and (code := self.exit_code) is not None:
                raise NotAvailable(f"{self.name} ended with {code}:\n{self.tail}")
            return found[0] if found else None

        try:
            found = eventually(first, timeout_s=timeout_s, interval_s=0.05, what=name)
        except TimeoutError as error:
            raise NotAvailable(f"{self.name}: {error}\n{self.tail}") from error
        assert found is not None
        return found

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; one that has ended gets none."""
        if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            self.asked_to_end = True
        if self.is_alive:
            os.kill(self.pid, number)

    def end(self) -> None:
        """Ask it to end, and wait for nothing."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, and return when it is gone."""
        self.signal(signal.SIGKILL)
        self.wait(10.0)

    def wait(self, timeout_s: float) -> int | None:
        """Return its exit code, None when it still runs after so many seconds."""
        try:
            eventually(lambda: not self.is_alive, timeout_s=timeout_s, what=f"end of {self.name}")
        except TimeoutError:
            return None
        return self.exit_code

    def children(self) -> list[int]:
        """Return the process ids of its children that run handlers."""
        try:
            below = psutil.Process(self.pid).children(recursive=True)
            named = [(one.pid, " ".join(one.cmdline())) for one in below]
        except psutil.NoSuchProcess:
            return []
        return [pid for pid, words in named if "spawn_main" in words]
