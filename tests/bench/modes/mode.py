"""The modes that are compared, what each could reach at most, and what was published of it."""

from __future__ import annotations

import math
from enum import StrEnum
from statistics import fmean

from tests.bench.modes.arm import Arm, Delays


class Mode(StrEnum):
    """A handler's `delivery=`, by the names of `--modes` and of the rows."""

    AT_MOST_ONCE = "at_most_once"
    AT_LEAST_ONCE = "at_least_once"
    BATCH = "batch"


def ceiling_tps(mode: Mode, delays: Delays, n: int) -> float:
    """Return how many calls a second `n` at a time reach if only the counterparty takes time.

    >>> round(ceiling_tps(Mode.AT_MOST_ONCE, Arm.SLOW.delays, 10), 1)
    35.7
    >>> ceiling_tps(Mode.BATCH, Arm.SLOW.delays, 10)
    10.0
    """
    if mode is not Mode.BATCH:
        return n / delays.mean_s
    batches = range(0, whole_cycle(delays, n), n)
    return n / fmean(max(map(delays.of, range(first, first + n))) for first in batches)


def whole_cycle(delays: Delays, n: int) -> int:
    """Return after how many records both the delays and the batches of `n` begin anew.

    >>> whole_cycle(Arm.ONE_PERCENT_60S.delays, 50)
    100
    """
    return math.lcm(delays.cycle, n)


def published_tps(mode: Mode, arm: Arm, n: int) -> float | None:
    """Return what the published demo reached; None where it says nothing."""
    return _PUBLISHED.get((mode, arm, n))


_PUBLISHED = {
    (Mode.BATCH, Arm.SLOW, 10): 9.4,
    (Mode.BATCH, Arm.SLOW, 50): 46.0,
    (Mode.AT_LEAST_ONCE, Arm.SLOW, 10): 34.0,
    (Mode.AT_LEAST_ONCE, Arm.SLOW, 50): 170.0,
}
