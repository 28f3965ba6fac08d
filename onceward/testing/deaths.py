"""Where a run dies in a test, once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol


class Point(StrEnum):
    """A point of a run at which its child may die."""

    BEFORE_EFFECT = "before_effect"  # nothing outside has happened
    IN_EFFECT = "in_effect"  # the counterparty has acted, and its answer is lost
    AFTER_EFFECT = "after_effect"  # the handler has returned, and nobody heard


class NeverReached(AssertionError):
    """A run was to die at a point that it never came to."""


class Reached(Protocol):
    """Called in the thread of a run as it comes to a point."""

    def __call__(self, point: Point) -> None: ...


_RUN = threading.local()


def in_run(reached: Callable[[Point], None]) -> None:
    """Let the calling thread be a run that tells its points."""
    _RUN.reached = reached


def reach(point: Point) -> None:
    """Come to a point; a run that is to die there does not return. Outside a run nothing happens."""
    reached: Reached | None = getattr(_RUN, "reached", None)
    if reached is not None:
        reached(point)
