"""Every command with its options, as click has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import NamedTuple

import click

from docs.generators.markdown import anchor, code, slug, table
from onceward.commands import OWN, ROOMS, cli

SCRIPTS = {name: f"onceward-{name}" for name in ROOMS}


class CommandLine(NamedTuple):
    """A command, and the words that call it."""

    words: str
    command: click.Command


def markdown() -> str:
    """Return a heading for each script, and below it one for each of its commands."""
    return "\n\n".join(_described(one) for one in all_commands())


def all_commands() -> list[CommandLine]:
    """Return every command and every group of commands, in the order of `--help`."""
    root = click.Context(cli)
    found = []
    for name in (*OWN, *ROOMS):
        command = cli.get_command(root, name)
        assert command is not None
        found += list(_below(SCRIPTS.get(name, f"onceward {name}"), command))
    return found


def command_anchor(words: str) -> str:
    """Return the anchor of a command.

    >>> command_anchor("onceward-dlq list")
    'command-onceward-dlq-list'
    """
    return slug(f"command {words}")


def _below(words: str, command: click.Command) -> Iterator[CommandLine]:
    yield CommandLine(words, command)
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _below(f"{words} {name}", inner)


def _described(one: CommandLine) -> str:
    is_top = " " not in one.words or one.words.removeprefix("onceward ") in OWN
    context = click.Context(one.command, info_name=one.words)
    usage = " ".join([one.words, *one.command.collect_usage_pieces(context)])
    parts = [
        anchor(command_anchor(one.words)),
        f"{'##' if is_top else '###'} `{one.words}`",
        f"```text\n{usage}\n```",
        *_help(one.command),
    ]
    shown = [option for option in one.command.params if not getattr(option, "hidden", False)]
    rows = [_row(option, context) for option in shown if isinstance(option, click.Option)]
    if rows:
        parts.append(table(("option", "default", "meaning"), rows))
    return "\n\n".join(parts)


def _help(command: click.Command) -> Iterator[str]:
    # A paragraph that begins with \b keeps its lines: the examples.
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if paragraph.startswith("\b"):
            title, *lines = paragraph.removeprefix("\b").strip("\n").splitlines()
            example = inspect.cleandoc("\n".join(lines))
            yield f"{title}\n\n```text\n{example}\n```"
        else:
            yield " ".join(paragraph.split())


def _row(option: click.Option, context: click.Context) -> list[str]:
    names = ", ".join(map(code, [*option.opts, *option.secondary_opts]))
    if not option.is_flag and not option.count:
        names += f" {code(option.make_metavar(context))}"
    meaning = " ".join((option.help or "").split())
    if option.envvar:
        meaning += f" Variable: {code(str(option.envvar))}."
    is_shown = bool(option.show_default) and option.default is not None
    return [names, code(str(option.default)) if is_shown else "", meaning]
