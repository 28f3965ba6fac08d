"""Pieces of Markdown: a table, a list of terms, code in backticks, an anchor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table.

    >>> print(table(["name", "unit"], [["a|b", "s"]]))
    | name | unit |
    |---|---|
    | a\\|b | s |
    """
    rule = "|" + "---|" * len(heads)
    return "\n".join([_line(heads), rule, *map(_line, rows)])


def terms(found: Iterable[tuple[str, str, str, str]]) -> str:
    """Return a list of names with their meanings, which narrow screens show whole.

    >>> print(terms([("setting-a", "a", "Whether it is on.", "true or false")]))
    []{#setting-a}`a`
    : Whether it is on.
    : *true or false*

    Args:
        found: anchor, name, meaning, and facts in a few words; empty facts are left out.
    """
    return "\n\n".join(
        "\n".join(
            [f"[]{{#{place}}}{code(name)}", f": {meaning}", *([f": *{facts}*"] * bool(facts))]
        )
        for place, name, meaning, facts in found
    )


def code(text: str) -> str:
    """Return code in backticks; nothing for an empty text.

    >>> code("a"), code("")
    ('`a`', '')
    """
    return f"`{text}`" if text else ""


def anchor(name: str) -> str:
    """Return the line that gives the next heading or paragraph its anchor.

    >>> anchor("exit-code-3")
    '(exit-code-3)='
    """
    return f"({name})="


def slug(text: str) -> str:
    """Return a text as the name of an anchor.

    >>> slug("HANDLER_ERROR"), slug("SendUnknown")
    ('handler-error', 'sendunknown')
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _line(cells: Sequence[str]) -> str:
    words = (one.replace("|", r"\|").replace("\n", " ") for one in cells)
    return f"| {' | '.join(words)} |"
