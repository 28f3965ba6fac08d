"""What runs in the simulated world, and what can be done to it from outside."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from tests.simulation.clock import Face


class Crash(BaseException):
    """The process that runs now has died; nothing of it goes on, and no `except` sees it."""


class Parked(BaseException):
    """The thread that runs now has nothing to do until it is woken."""


class Violation(BaseException):
    """The contract is broken; no `except` of the product hides it.

    Args:
        invariant: which one, in a few words; the same for every instance of it.
        detail: what exactly happened.
    """

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


class FaultKind(StrEnum):
    """What happens to one call to a server: to it, to its reply, or to who makes it."""

    LOST = "is lost on its way"
    REPLY_LOST = "is carried out and its reply lost"
    LATE = "is given up and carried out later"
    CRASH_BEFORE = "dies before it"
    CRASH_AFTER = "dies when it is done"
    STALL_BEFORE = "hangs before it"
    STALL_AFTER = "hangs when it is done"
    REFUSED = "is refused"


class Fault(NamedTuple):
    """A fault that waits for the next call.

    Args:
        steps: of a stall: how many steps of others come between.
        frozen: of a stall: the whole process hangs, and not this one of its threads.
        meanwhile: of a stall: what happens for certain before these steps.
    """

    kind: FaultKind
    steps: int = 0
    frozen: bool = False
    meanwhile: Callable[[], object] | None = None


class Process:
    """A process: a worker, or a client.

    Attributes:
        busy: its threads that are in the middle of a call.
        armed: the fault that its next call to a server meets, by server.
        frozen_ms: since when it is stopped; its children are not.
        woken_ms: when it went on the last time.
    """

    def __init__(self, name: str, face: Face) -> None:
        self.name = name
        self.face = face
        self.alive = True
        self.frozen_ms: int | None = None
        self.woken_ms = -(10**9)
        self.busy: set[str] = set()
        self.armed: dict[str, Fault] = {}

    def may_run(self, thread: str) -> bool:
        """Whether this thread can take a step."""
        return self.alive and self.frozen_ms is None and thread not in self.busy

    def wake(self, now_ms: int) -> None:
        """Let it go on after it was stopped."""
        if self.frozen_ms is not None:
            self.frozen_ms = None
            self.woken_ms = now_ms


class NoThread:
    """Stands in for a thread that is driven by the scheduler."""

    def start(self) -> None:
        """Do nothing: the scheduler decides when it runs."""

    def is_alive(self) -> bool:
        """It never began."""
        return False


class Parking:
    """Stands in for the condition or event a thread waits on: it may run `turns` times, then parks.

    Args:
        turns: waits that return at once before one parks the thread; None: all of them do.
    """

    def __init__(self, turns: int | None = 0) -> None:
        self._turns = turns
        self._left = turns

    def __enter__(self) -> None:
        """Take no lock: only one thread runs at a time."""

    def __exit__(self, *raised: object) -> None:
        """Give no lock back."""

    def let_run(self) -> None:
        """Let the thread go on from its next wait."""
        self._left = self._turns

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return at once, or end the step of the thread that waits."""
        if self._left is not None:
            if not self._left:
                raise Parked
            self._left -= 1
        return False

    def wait_for(self, is_so: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Return whether it is so, or end the step of the thread that waits for it."""
        if is_so():
            return True
        if timeout_s is None:
            raise Parked
        return self.wait(timeout_s)

    def is_set(self) -> bool:
        """Nobody stops a simulated thread; it dies, or is parked."""
        return False

    def notify_all(self) -> None:
        """Wake nobody: the scheduler decides who runs."""

    notify = set = notify_all
