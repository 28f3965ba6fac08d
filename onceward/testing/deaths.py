"""Where a run dies in a test, or loses its journal: each once."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Point(StrEnum):
    """A point of a run at which its child may die."""

    BEFORE_EFFECT = "before_effect"  # nothing outside has happened
    AT_CALL = "at_call"  # its call is on its way, and the counterparty has not acted
    IN_EFFECT = "in_effect"  # the counterparty has acted, and its answer is lost
    AFTER_EFFECT = "after_effect"  # the handler has returned, and nobody heard


@dataclass(frozen=True, slots=True)
class Death:
    """The death of one run.

    Attributes:
        is_overdue: its child is killed for its time limit.
        wakes: it only stands still, and goes on when it has been taken over.
    """

    point: Point
    is_overdue: bool = False
    wakes: bool = False


@dataclass(frozen=True, slots=True)
class JournalOutage:
    """The journal is away from this point of one run on."""

    point: Point


class NeverReached(AssertionError):
    """A run was to die, or to lose its journal, at a point that it never came to."""


class RunDied(BaseException):
    """Ends the thread of a dead run."""


class WatchedRun(Protocol):
    """A run that may die where it is."""

    def reach(self, point: Point) -> None:
        """Come to a point; where the run is to die, or is dead, this does not return."""

    def go_on(self) -> None:
        """Return only while the run lives."""


# A context variable: `asyncio.to_thread` and the tasks of a handler belong to its run.
RUN: ContextVar[WatchedRun | None] = ContextVar("onceward_run_in_test", default=None)


def reach(point: Point) -> None:
    """Come to a point of the run that calls; outside a run nothing happens."""
    if (run := RUN.get()) is not None:
        run.reach(point)


def go_on() -> None:
    """Return, unless the run that calls is dead."""
    if (run := RUN.get()) is not None:
        run.go_on()
