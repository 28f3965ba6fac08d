"""A run that is watched: a picture drawn again in place on a terminal, lines anywhere else."""

from __future__ import annotations

from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from feedback.clock import monotonic_s

WIDTH = 100


class Screen:
    """Where a run is shown, for the length of a block.

    Args:
        line_every_s: how often a moment is printed where no picture can be drawn.

    Attributes:
        is_live: whether the terminal can draw a picture.
        width: how many characters a picture may be wide.
    """

    def __init__(self, console: Console, *, line_every_s: float = 3.0) -> None:
        can_draw = console.is_terminal and not console.is_dumb_terminal
        self.is_live = can_draw and console.encoding == "utf-8"
        self.width = min(WIDTH, console.width)
        self._console = console
        self._line_every_s = line_every_s
        # Drawn when there is something new: a thread that redraws would tear the lines said.
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self.restart_clock()

    def __enter__(self) -> Self:
        if self.is_live:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.is_live:
            self._live.stop()

    def restart_clock(self) -> None:
        """Count time from now on."""
        self._began_s = monotonic_s()
        self._next_line_s = self._line_every_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the clock was started."""
        return monotonic_s() - self._began_s

    def say(self, *sentences: str, style: str = "") -> None:
        """Print sentences, the first with its time; they stay to be read."""
        stamp = f"{self.elapsed_s:6.1f} s  "
        for number, sentence in enumerate(sentences):
            lead = stamp if number == 0 else " " * len(stamp)
            # Never wrapped: who reads a log wants one line for one thing.
            self._console.print(Text.assemble((lead, "grey50"), (sentence, style)), soft_wrap=True)

    def show(self, picture: RenderableType, *, line: str, at_s: float) -> None:
        """Show a moment in place of the last one.

        Args:
            line: the same in one line, printed unless that was done a moment ago.
            at_s: when it was, in seconds of this clock.
        """
        if self.is_live:
            self._live.update(picture, refresh=True)
        elif at_s >= self._next_line_s:
            self._next_line_s = at_s + self._line_every_s
            self.say(line)
