"""Showing a run: a table that lives on a terminal, lines anywhere else."""

from __future__ import annotations

import threading
from typing import Self

from rich.console import Console

from tests.chaos.row import Row
from tests.chaos.running import Result
from tests.chaos.scene import Scene
from tests.chaos.table import table
from tests.kit.screen import Screen

TICK_S = 1.0
LINE_EVERY_S = 15.0


class RowScreen(Screen):
    """The rows that are done, and how far the one is that runs; for one run at a time."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, line_every_s=LINE_EVERY_S)
        self._results: list[Result] = []
        self._running: tuple[Row, Scene] | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tick_on, name="chaos-screen", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()
        super().__exit__(*error)

    def begin(self, row: Row) -> None:
        """Say which row begins."""
        self._running = None
        self.restart_clock()
        self.say(f"{row.fault}: {row.what}; journal in {row.journal}")

    def watch(self, scene: Scene) -> None:
        """Show how far the clients of this scene are."""
        self._running = scene.row, scene

    def end(self, result: Result | None) -> None:
        """Show a row that is done."""
        self._running = None
        if result is not None:
            self._results.append(result)
            self.say("good" if result.good else "NOT GOOD", *map(str, result.figures))
        if self.is_live:
            self.show(table(self._results, ""), line="", at_s=0.0)

    def _tick_on(self) -> None:
        while not self._done.wait(TICK_S):
            if (running := self._running) is None:
                continue
            row, scene = running
            clients, at_s = scene.clients, self.elapsed_s
            state = f"sent {clients.sent:,}, told {clients.told:,}, open {clients.open_count:,}"
            picture = table(self._results, f"{row.fault}, {at_s:.0f} s: {state}")
            self.show(picture, line=state, at_s=at_s)
