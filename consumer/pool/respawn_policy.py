"""Which children are still to be started, when, and why others had to be replaced. No I/O."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from enum import StrEnum

from feedback.doubling import doubled

BROKEN_AFTER = 5
# The first pause before another child is started, and the longest.
DELAY_S = 0.1, 5.0
# So many start at a time, and the first of them serves while the next ones start: all together
# would each be ready last, on a busy machine too late. One that takes so long is not counted: it
# waits for something else than a processor.
AT_ONCE = max(2, len(os.sched_getaffinity(0)))
SLOW_AFTER_S = 5.0


class RespawnReason(StrEnum):
    """Why a child had to be replaced: the stable labels of the metrics."""

    DIED = "died"
    OVERDUE = "overdue"
    STUCK = "stuck"
    MEMORY = "memory"
    MAX_REQUESTS = "max_requests"
    START_FAILED = "start_failed"


class RespawnPolicy:
    """Keeps each place of the pool filled, without haste where starting fails.

    Attributes:
        replaced: how many children were replaced, by each reason.
        postponed: successors that wait until a retired child has ended.
    """

    def __init__(self) -> None:
        self.replaced: dict[str, int] = dict.fromkeys(map(str, RespawnReason), 0)
        self.postponed = 0
        self._last_failure = ""
        # (monotonic time, failures before it)
        self._due: list[tuple[float, int]] = []

    def next_s(self, begun_s: Iterable[float]) -> float:
        """Return the monotonic time at which the next child is to be started.

        Args:
            begun_s: when each child was started that is not ready yet; monotonic.
        """
        if not self._due:
            return math.inf
        youngest = sorted(begun_s)[-AT_ONCE:]
        room_s = youngest[0] + SLOW_AFTER_S if len(youngest) == AT_ONCE else -math.inf
        return max(room_s, min(self._due)[0])

    def want(self, now_s: float) -> None:
        """Take in that a child is to be started."""
        self._due.append((now_s, 0))

    def try_later(self, failures: int, reason: str, now_s: float) -> None:
        """Take in that a start has failed.

        Args:
            failures: how many in a row have failed in its place, this one included.
            reason: one line.
        """
        self.replaced[RespawnReason.START_FAILED] += 1
        self._last_failure = reason
        self._due.append((now_s + doubled(*DELAY_S, failures), failures))

    def take_first(self) -> int:
        """Return how many starts have failed in the place of the child that is due first."""
        first = min(self._due)
        self._due.remove(first)
        return first[1]

    def fault(self, starting: Iterable[int]) -> str | None:
        """Return why the last start failed, if `BROKEN_AFTER` in a row did in one place.

        Args:
            starting: the failures before each child that is being started now.
        """
        if not self._last_failure:
            return None
        in_a_row = max((*starting, *(failures for _, failures in self._due)), default=0)
        return self._last_failure if in_a_row >= BROKEN_AFTER else None
