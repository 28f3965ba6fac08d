"""A transaction of a foreign program: its records are there when it is committed, or never were."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class TransactionState(StrEnum):
    """How a transaction stands."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


class MemoryTransaction:
    """Records of one writer, over any number of partitions.

    Attributes:
        marks: writes the mark of its end into each of its partitions.
    """

    def __init__(self) -> None:
        self.state = TransactionState.OPEN
        self.marks: dict[object, Callable[[], None]] = {}

    def end(self, state: TransactionState) -> None:
        """End it, and mark its partitions."""
        self.state = state
        for mark in self.marks.values():
            mark()
