"""Showing a run: a panel that lives on a terminal, a line every few seconds anywhere else."""

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from feedback.clock import monotonic_s
from tests.demo.view import View, line, panel

PANEL_WIDTH = 100
LINE_EVERY_S = 3.0


class Screen(Protocol):
    """Where a run is shown."""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the screen was opened."""

    def say(self, text: str, *, style: str = "") -> None:
        """Tell what happened, with its time; it stays to be read."""

    def show(self, view: View) -> None:
        """Show this moment in place of the last one."""


class Lines(AbstractContextManager["Lines"]):
    """Plain lines, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = monotonic_s()
        self._next_s = LINE_EVERY_S

    @property
    def elapsed_s(self) -> float:
        """Seconds since the screen was opened."""
        return monotonic_s() - self._began_s

    def say(self, text: str, *, style: str = "") -> None:
        """Print one line."""
        stamp = f"{self.elapsed_s:5.1f} s  "
        # Never wrapped: who reads a log wants one line for one thing.
        self._console.print(Text.assemble((stamp, "grey50"), (text, style)), soft_wrap=True)

    def show(self, view: View) -> None:
        """Print the moment, unless that was done a moment ago."""
        if view.elapsed_s >= self._next_s:
            self._next_s = view.elapsed_s + LINE_EVERY_S
            self.say(line(view))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held."""


class LivePanel(AbstractContextManager["LivePanel"]):
    """A panel that is drawn again in place; what is said scrolls by above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began_s = monotonic_s()
        # Drawn when there is something new: a thread that redraws would tear the lines said.
        self._live = Live(console=console, auto_refresh=False, transient=True)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the screen was opened."""
        return monotonic_s() - self._began_s

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def say(self, text: str, *, style: str = "") -> None:
        """Print above the panel."""
        stamp = f"{self.elapsed_s:5.1f} s  "
        self._console.print(Text.assemble((stamp, "grey50"), (text, style)))

    def show(self, view: View) -> None:
        """Draw the panel."""
        width = min(PANEL_WIDTH, self._console.width)
        self._live.update(panel(view, width=width), refresh=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()


def open_screen(console: Console) -> Lines | LivePanel:
    """Return a live panel where the terminal can draw one, else lines."""
    can_draw = console.is_terminal and not console.is_dumb_terminal
    return LivePanel(console) if can_draw and console.encoding == "utf-8" else Lines(console)
