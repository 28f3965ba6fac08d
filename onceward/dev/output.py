"""The lines of a session: the name of a process before each, colours on a terminal."""

from __future__ import annotations

import re
from contextlib import suppress

import click

from feedback.console.printable import printable

WIDTH = 8
OURS = "dev"
_COLOURS = {OURS: "cyan", "worker": "green", "resender": "magenta"}
_ALARMS = (
    (re.compile(r"^\S+ (ERROR|CRITICAL)\b|^error: |^\w*Error\b"), "red"),
    (re.compile(r"^\S+ WARNING\b"), "yellow"),
)


def output_line(name: str, text: str) -> str:
    r"""Return a line of a process as it is shown; characters that control a terminal are escaped.

    >>> click.unstyle(output_line("worker", "error: a\x1b[2Jb"))
    'worker   | error: a\\x1b[2Jb'
    """
    colour = next((one for pattern, one in _ALARMS if pattern.search(text)), None)
    prefix = click.style(f"{name:{WIDTH}} | ", fg=_COLOURS.get(name))
    return prefix + click.style(printable(text, also="\t"), fg=colour)


def show_line(name: str, text: str) -> None:
    """Print a line of a process; without a terminal it has no colours."""
    click.echo(output_line(name, text))


def show_if_read(name: str, text: str) -> None:
    """Print a line, unless the terminal is closed or nobody reads the pipe any more."""
    with suppress(OSError):
        show_line(name, text)


def say(text: str) -> None:
    """Print a line of the session itself."""
    show_line(OURS, text)
