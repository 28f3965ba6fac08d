"""Text that came from outside, for a terminal. Pure."""

from __future__ import annotations


def printable(text: str, *, also: str = "") -> str:
    r"""Return text that cannot move a terminal's cursor, colour it, turn its direction or begin a
    line of its own.

    >>> printable("a" + chr(10) + "b")
    'a\\nb'

    Args:
        also: what may stand all the same, as a line's end.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in also else repr(c)[1:-1] for c in text)
