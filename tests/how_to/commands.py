"""The commands that a page shows, as words, and the reading of them by their own parsers."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import click

from onceward.commands import cli

_BLOCK = re.compile(r"```(?:sh|console)\n(.*?)```", re.DOTALL)
_INLINE = re.compile(r"`(onceward(?:-[a-z]+)? [^`]+)`")
_BEFORE, _BEHIND = re.compile(r"\w+=|until$"), re.compile(r"[|&;·]|\d?[<>]")
_PROGRAM = re.compile(r"onceward(?:-(?:worker|client|dlq|audit))?$")


def blocks(text: str) -> Iterator[str]:
    """Yield each line of the blocks of commands, joined where it goes on, without comments.

    >>> list(blocks("```sh\\nonceward init  # a\\n\\nonceward \\\\\\n  dev\\n```"))
    ['onceward init', 'onceward dev']
    """
    for block in _BLOCK.findall(text):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            typed = re.sub(r"(^|\s+)#\s.*", "", line).removeprefix("$ ").strip()
            if typed and (line.startswith("$ ") or "```console" not in text):
                yield typed


def ours(line: str) -> list[str]:
    """Return the words of a command of ours; none for another program's line.

    >>> ours("V=1 onceward-dlq list --since 2h | head -3"), ours("kill 7")
    (['dlq', 'list', '--since', '2h'], [])
    """
    words = shlex.split(re.sub(r"\$\([^)]*\)", "X", line))
    begin = next((at for at, word in enumerate(words) if not _BEFORE.match(word)), len(words))
    if not _PROGRAM.match("".join(words[begin : begin + 1])):
        return []
    end = [at for at, word in enumerate(words) if _BEHIND.match(word)]
    room = words[begin].removeprefix("onceward").lstrip("-")
    return [*([room] if room else []), *words[begin + 1 : min(end, default=len(words))]]


def parse(words: Sequence[str], *, is_whole: bool = True) -> None:
    """Read a command with its own parser, which runs nothing.

    Args:
        is_whole: whether arguments that it needs may not be missing.

    Raises:
        click.UsageError: it has no such command, option or value.
    """
    command: click.Command = cli
    context, rest = click.Context(cli), list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        below = command.get_command(context, name)
        if below is None:
            raise click.UsageError(f"no command {name!r} in {' '.join(words)!r}")
        command, context = below, click.Context(below)
    try:
        command.make_context(command.name, rest).close()
    except click.exceptions.Exit:  # --help, --version
        return
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError):
        if is_whole:
            raise


def inline(text: str) -> Iterator[str]:
    """Yield each command that stands within a sentence or a table."""
    for found in _INLINE.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        yield " ".join(found.split())
