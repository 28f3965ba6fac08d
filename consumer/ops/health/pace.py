"""How many requests of each topic have ended in the last hour, and how long they took.

A worker counts its own and says them in its heartbeat; whoever reads the heartbeats adds them up.
Also counted are those that end without a run: refused, skipped, or ended by a sweep. Timed are
those that end with their first run: in others the wait for the retry would be missing. A request
that expires before any worker claims it is not counted.

Durations are counted by steps, so that those of several workers can be added: a percentile is at
most a step too long.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from consumer.journal import Row
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from feedback.clock import monotonic_s
from feedback.records.envelope import Record
from feedback.status import State

MINUTES = 60
MINUTE_S = 60.0
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


class PaceMeter(Feature):
    """Counts the requests that end in this worker, for an hour each.

    Args:
        now_s: a monotonic clock.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._began_s = now_s()
        # The minutes that have any, the oldest first: each with its counts by topic and step.
        self._minutes: deque[tuple[int, Counter[tuple[str, int | None]]]] = deque()
        self._total: Counter[tuple[str, int | None]] = Counter()
        self._lock = threading.Lock()

    def ended(self, one: Settlement) -> None:
        """Count and time a run that is the end of its request."""
        if one.finish is None or not one.stands or one.finish.state == State.RETRYING:
            return
        delivery = one.delivery
        is_first = one.run[1] == 1 and not delivery.wakes
        took_s = self._now_s() - delivery.buffered_s
        self._count(delivery.record.topic, step_of(took_s) if is_first else None)

    def never_ran(self, row: Row, record: Record) -> None:
        """Count a request that was refused or skipped."""
        self._count(record.topic, None)

    def concluded(self, row: Row) -> None:
        """Count a request that a takeover or a sweep has ended."""
        self._count(row.topic, None)

    def _count(self, topic: str, step: int | None) -> None:
        counted = topic, step
        with self._lock:
            # Within the lock: what it forgets it forgets for good.
            now_s = self._now_s()
            minute = self._forget(now_s)
            if not self._minutes or self._minutes[-1][0] != minute:
                self._minutes.append((minute, Counter()))
            self._minutes[-1][1][counted] += 1
            self._total[counted] += 1

    def seen(self) -> dict[str, TopicPace]:
        """Return the pace of each topic of which any has ended; any thread may ask."""
        with self._lock:
            now_s = self._now_s()
            minute = self._forget(now_s)
            counts = list(self._total.items())
        kept_s = now_s - max(self._began_s, self._began_s + (minute - MINUTES + 1) * MINUTE_S)
        ended: Counter[str] = Counter()
        steps: dict[str, dict[int, int]] = {}
        for (topic, step), count in counts:
            ended[topic] += count
            if step is not None:
                steps.setdefault(topic, {})[step] = count
        return {
            topic: TopicPace(ended=count, over_s=kept_s, steps=steps.get(topic, {}))
            for topic, count in ended.items()
        }

    def _forget(self, now_s: float) -> int:
        """Forget minutes that are over for an hour; return the number of this one."""
        minute = int((now_s - self._began_s) // MINUTE_S)
        while self._minutes and self._minutes[0][0] <= minute - MINUTES:
            self._total -= self._minutes.popleft()[1]
        return minute
