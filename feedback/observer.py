"""Observers: they hear what the parts of a process do, how often, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from feedback.clock import monotonic_s


class Observer:
    """Hears nothing. Any thread may call; every method returns at once and raises nothing."""

    def begins(self, what: str) -> None:
        """Hear that a part gets on: it begins this now."""

    def took(self, what: str, seconds: float) -> None:
        """Hear that it is over, whatever came of it, and how long it took."""

    def counted(self, what: str, label: str, count: int) -> None:
        """Hear of so many things of one kind.

        Args:
            label: tells them apart; one of a few.
        """


@contextmanager
def observed(observers: Sequence[Observer], *what: str) -> Iterator[None]:
    """Let observers hear when the block begins, and how long it took.

    Args:
        what: what the block does.
    """
    if not (observers and what):
        yield
        return
    for one in observers:
        for each in what:
            one.begins(each)
    began_s = monotonic_s()
    try:
        yield
    finally:
        seconds = monotonic_s() - began_s
        for one in observers:
            for each in what:
                one.took(each, seconds)
