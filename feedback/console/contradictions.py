"""Options of one command line that contradict each other: an error of usage, whatever the order."""

from __future__ import annotations

from collections.abc import Collection

import click
from click.core import ParameterSource


def refuse_beside(name: str, *others: str) -> None:
    """Return when the command line does not give an option beside one that contradicts it.

    Args:
        name: as a person writes it: `--all`, or `PAYLOAD` for an argument.
        others: those that contradict it.

    Raises:
        UsageError: it gives both.
    """
    given = _given()
    both = [one for one in others if one in given]
    if name in given and both:
        raise click.UsageError(f"{name} and {both[0]} contradict each other: give one of them")


def refuse_beside_all(name: str, *, but: Collection[str]) -> None:
    """Return when the command line gives an option alone, or beside some that go with it.

    Args:
        but: those that go with it.

    Raises:
        UsageError: it gives another one beside it.
    """
    refuse_beside(name, *(one for one in _given() if one != name and one not in but))


def _given() -> list[str]:
    """Return the options and arguments of the command line, in the command's order."""
    context = click.get_current_context()
    return [
        name
        for one in context.command.params
        if context.get_parameter_source(one.name or "") is ParameterSource.COMMANDLINE
        for name in (one.opts if isinstance(one, click.Option) else (one.human_readable_name,))
    ]
