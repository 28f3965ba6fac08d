"""How many requests of each topic have ended in the last hour, and how long they took.

A worker counts its own and says them in its heartbeat; whoever reads the heartbeats adds them up.
Also counted are those that end without a run: refused, skipped, or ended by a sweep. Timed are
those that end with their first run: in others the wait for the retry would be missing. A request
that expires before any worker claims it is not counted.

Durations are counted by steps, so that those of several workers can be added: a percentile is at
most a step too long.

`pace_meter` counts in a worker; who reads heartbeats needs nothing of a worker.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

# The first step ends at a millisecond, each further one is a fifth longer.
FIRST_S = 0.001
GROWTH = 1.2
MOST_STEPS = 120
# A heartbeat comes from outside: of more than these no figure can be made.
Step = Annotated[int, Field(ge=0, le=MOST_STEPS)]
Count = Annotated[int, Field(ge=0, le=2**53)]


class TopicPace(BaseModel):
    """The requests of a topic that have ended.

    Attributes:
        ended: how many.
        over_s: in so many seconds, an hour at most.
        steps: how many took how long, from being read to their end, by step; see `step_of`. Those
            that waited for a retry, or never ran, are not among them.
    """

    model_config = ConfigDict(frozen=True)

    ended: Count = 0
    over_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    steps: Mapping[Step, Count] = {}

    @property
    def per_s(self) -> float:
        """How many in a second, on average; none in the first second."""
        return self.ended / self.over_s if self.over_s >= 1 else 0.0

    def within_s(self, share: float) -> float | None:
        """Return the seconds within which such a share has ended; None where none was timed.

        >>> round(TopicPace(over_s=9, steps={0: 94, 3: 6}).within_s(0.95), 6)
        0.001728
        """
        left = math.ceil(share * sum(self.steps.values()))
        for step in sorted(self.steps):
            left -= self.steps[step]
            if left <= 0 < self.steps[step]:
                return FIRST_S * GROWTH**step
        return None


def step_of(seconds: float) -> int:
    """Return the step of a duration.

    >>> step_of(0.0005), step_of(0.001), step_of(0.0011), step_of(1e30)
    (0, 0, 1, 120)
    """
    if seconds <= FIRST_S:
        return 0
    return min(MOST_STEPS, math.ceil(math.log(seconds / FIRST_S, GROWTH)))


class WorkersPace:
    """The pace of a topic on all workers together.

    Attributes:
        per_s: requests that ended in a second.
        p95_s: 95 of 100 have ended within so many seconds; None where none was timed.
    """

    def __init__(self, paces: Iterable[TopicPace]) -> None:
        steps: Counter[int] = Counter()
        self.per_s = 0.0
        for one in paces:
            self.per_s += one.per_s
            steps.update(one.steps)
        self.p95_s = TopicPace(steps=steps).within_s(0.95)
