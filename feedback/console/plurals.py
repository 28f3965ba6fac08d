"""Numbers with their nouns, for people. Pure."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return a number and its noun, in the plural unless it is one.

    >>> counted(1, "partition")
    '1 partition'
    >>> counted(1200, "dead letter")
    '1,200 dead letters'
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
