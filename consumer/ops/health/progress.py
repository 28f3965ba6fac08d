"""The rule of progress: which loop has not come round for too long. Pure but for the ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from feedback.clock import monotonic_s
from feedback.observer import Observer

AnswerT = TypeVar("AnswerT")

LOOP, INTAKE, TELLER, LEASE, HEARTBEAT = "loop", "intake", "teller", "lease", "heartbeat"
# Not a thread: requests that wait get slots that are free.
DISPATCH = "dispatch"
# Neither: the jobs of the children have begun.
HANDOVER = "handover"
ALL = (LOOP, INTAKE, TELLER, LEASE, HEARTBEAT, DISPATCH, HANDOVER)


# Of which loop each of these is a sign of life.
SIGNS = {
    "poll": INTAKE,
    "commit": INTAKE,
    "status": TELLER,
    "lease": LEASE,
    "dispatch": DISPATCH,
}


class LoopProgress(Observer):
    """When each loop was last seen to get on; for any thread, without a lock."""

    def __init__(self) -> None:
        self._ticks: dict[str, float] = {}

    def tick(self, loop: str) -> None:
        """Say that this loop gets on; from the first time on it must go on doing so."""
        self._ticks[loop] = monotonic_s()

    def begins(self, what: str) -> None:
        """Hear of something that only a loop does that gets on."""
        if what in SIGNS:
            self.tick(SIGNS[what])

    def took(self, what: str, seconds: float) -> None:
        """Hear that it came back: a server that refuses is no stall."""
        self.begins(what)

    def ticking(self, loop: str, ask: Callable[[], AnswerT]) -> Callable[[], AnswerT]:
        """Return `ask` with a tick before each call: for a question of each turn of a loop."""

        def ticked() -> AnswerT:
            self.tick(loop)
            return ask()

        return ticked

    @property
    def ticks(self) -> Mapping[str, float]:
        """The monotonic time of each loop's last tick."""
        return dict(self._ticks)


def stalled(
    ticks: Mapping[str, float],
    now_s: float,
    *,
    limits: Mapping[str, float],
    awake_since_s: float = 0.0,
) -> dict[str, float]:
    """Return the loops that are late, each with the seconds since it last got on.

    Args:
        ticks: monotonic time at which each loop last got on; one without a time owes nothing.
        limits: seconds that each loop may take; one without a limit is not judged.
        awake_since_s: monotonic time since which the process was certainly not stopped as a whole:
            no loop owes anything for the time before.

    >>> stalled({"loop": 10.0, "intake": 39.0}, 41.0, limits={"loop": 30.0, "intake": 30.0})
    {'loop': 31.0}
    >>> stalled({"loop": 10.0}, 41.0, limits={"loop": 30.0}, awake_since_s=40.0)
    {}
    """
    ages = {loop: now_s - max(tick_s, awake_since_s) for loop, tick_s in sorted(ticks.items())}
    return {loop: age_s for loop, age_s in ages.items() if age_s > limits.get(loop, math.inf)}
