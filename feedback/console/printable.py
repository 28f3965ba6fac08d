"""Text from outside made safe for a terminal. Pure."""

from __future__ import annotations


def printable(text: str, *, also: str = "") -> str:
    r"""Return the text with every character escaped that could control a terminal.

    It cannot move the cursor, set a colour, turn the direction of text or begin a new line.

    >>> printable("a" + chr(10) + "b")
    'a\\nb'

    Args:
        also: characters to leave as they are, for instance a line break.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in also else repr(c)[1:-1] for c in text)
