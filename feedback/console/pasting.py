"""Commands that a person pastes into a shell. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def pasted(words: Sequence[str], last: str) -> str:
    """Return a command as a shell takes it, whatever its last word is.

    >>> pasted(["onceward-dlq", "show"], "-n;`x`")
    "onceward-dlq show -- '-n;`x`'"

    Args:
        last: anybody's text; it stands behind `--` where a command would take it for an option.
    """
    behind = ("--",) if last.startswith("-") else ()
    return shlex.join((*words, *behind, last))
