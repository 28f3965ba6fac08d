"""Counts the requests of a worker that end, for the pace that its heartbeat says."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable

from consumer.journal import Row
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from consumer.ops.health.pace import TopicPace, step_of
from feedback.clock import monotonic_s
from feedback.records.envelope import Record
from feedback.status import State

MINUTES = 60
MINUTE_S = 60.0


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
