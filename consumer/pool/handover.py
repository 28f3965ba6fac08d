"""How long a child has owed the start of its jobs. No I/O but the clock.

A time limit begins with the start, which the child reports. A child may read no more: it is
stopped, or a thread that a handler left behind holds the interpreter's lock. It would keep its next
jobs for ever. So the hand-over is on the clock as well.
"""

from __future__ import annotations

import math

from feedback.clock import monotonic_s

# From here on it is given nothing else, and health says so. A busy interpreter takes tenths.
LATE_AFTER_S = 1.0


class HandoverClock:
    """The clock of one child: runs while it has a free slot and a job that it has not started.

    Args:
        slots: how many jobs it runs at a time.
        limit_s: how long it may owe a start.

    Attributes:
        since_s: monotonic time since which it owes one; infinite when it does not.
        is_late: whether it was found to owe it for longer than `LATE_AFTER_S`.
    """

    def __init__(self, *, slots: int, limit_s: float) -> None:
        self.since_s = math.inf
        self.is_late = False
        self._slots = slots
        self._limit_s = limit_s

    @property
    def due_s(self) -> float:
        """The monotonic time at which it is to be looked at."""
        limit_s = self._limit_s if self.is_late else min(LATE_AFTER_S, self._limit_s)
        return self.since_s + limit_s

    @property
    def reason(self) -> str:
        """Why a child is killed whose time is over."""
        return f"killed, because it had not started what it was given {self._limit_s:g} s before"

    def note(self, *, held: int, running: int, has_started: bool) -> None:
        """Take in how the child stands now.

        Args:
            held: the jobs it has.
            running: those of them that have started.
            has_started: whether one has since the last call.
        """
        if not running < min(held, self._slots):
            self.since_s = math.inf
            self.is_late = False
        elif has_started or self.since_s == math.inf:
            self.since_s = monotonic_s()
            self.is_late = False

    def is_over(self, now_s: float) -> bool:
        """Return whether its time is over, and keep that it is late."""
        owed_s = now_s - self.since_s
        self.is_late = owed_s >= min(LATE_AFTER_S, self._limit_s)
        return owed_s >= self._limit_s

    def forgive(self, stood_s: float, now_s: float) -> None:
        """Do not count that this process itself stood still for so long, or it with the child."""
        if self.since_s != math.inf:
            self.since_s = min(now_s, self.since_s + stood_s)
