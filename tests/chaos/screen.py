"""Showing a run: a table that lives on a terminal, lines anywhere else."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live

from feedback.clock import monotonic_s
from tests.chaos.row import Row
from tests.chaos.running import Result
from tests.chaos.scene import Scene
from tests.chaos.table import table

TICK_S = 1.0
LINE_EVERY_S = 15.0


class Screen:
    """The rows that are done, and how far the one is that runs; for one run at a time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._results: list[Result] = []
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._is_live = console.is_terminal and not console.is_dumb_terminal
        self._scene: Scene | None = None
        self._row: Row | None = None
        self._began_s = self._line_s = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick_on, name="chaos-screen", daemon=True)

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        if self._is_live:
            self._live.stop()

    def begin(self, row: Row) -> None:
        """Say which row begins."""
        self._row, self._scene = row, None
        self._began_s = self._line_s = monotonic_s()
        self.say(f"{row.fault}: {row.what}; journal in {row.journal}")

    def watch(self, scene: Scene) -> None:
        """Show how far the clients of this scene are."""
        self._scene = scene

    def end(self, result: Result | None) -> None:
        """Show a row that is done."""
        self._row = self._scene = None
        if result is not None:
            self._results.append(result)
            self.say("good" if result.good else "NOT GOOD", *map(str, result.figures))
        self._draw("")

    def say(self, *sentences: str) -> None:
        """Print sentences, the first with the time that the row runs."""
        stamp = f"{monotonic_s() - self._began_s:6.1f} s  "
        for number, sentence in enumerate(sentences):
            lead = stamp if number == 0 else " " * len(stamp)
            self._console.print(f"{lead}{sentence}", soft_wrap=True, markup=False, highlight=False)

    def _tick_on(self) -> None:
        while not self._done.wait(TICK_S):
            row, scene = self._row, self._scene
            if row is None or scene is None:
                continue
            clients = scene.clients
            state = f"sent {clients.sent:,}, told {clients.told:,}, open {clients.open_count:,}"
            if self._is_live:
                self._draw(f"{row.fault}, {monotonic_s() - self._began_s:.0f} s: {state}")
            elif monotonic_s() - self._line_s >= LINE_EVERY_S:
                self._line_s = monotonic_s()
                self.say(state)

    def _draw(self, running: str) -> None:
        if self._is_live:
            self._live.update(table(self._results, running), refresh=True)
