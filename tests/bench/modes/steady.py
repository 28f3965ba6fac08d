"""What was reached in steady state, from the calls that the counterparty answered. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from tests.bench.modes.arm import Delays
from tests.bench.modes.calls import Call
from tests.bench.modes.mode import whole_cycle

SLOW_DELAYS_BEFORE = 2


class TooShort(ValueError):
    """There is no whole cycle after the beginning: the load has to last longer."""


@dataclass(frozen=True, slots=True)
class Steady:
    """What was reached between two answers that are whole cycles apart.

    Attributes:
        tps: calls answered in a second.
        seconds: the window's length.
        late_ms: how much later than it was to the counterparty answered, in the mean.
    """

    tps: float
    seconds: float
    late_ms: float


def steady(calls: Sequence[Call], delays: Delays, n: int) -> Steady:
    """Return what was reached from two slow delays after the first answer to the last whole cycle.

    Args:
        calls: in the order of their answers.
        n: how many there were at a time.

    Raises:
        TooShort: see there.
    """
    cycle = whole_cycle(delays, n)
    ends_s = [call.answered_s for call in calls]
    began_s = ends_s[0] if ends_s else 0.0
    before = max(n, bisect_left(ends_s, began_s + SLOW_DELAYS_BEFORE * delays.slow_s))
    first = -(-before // cycle) * cycle
    last = len(calls) // cycle * cycle
    if last <= first:
        raise TooShort(
            f"{len(calls)} calls were answered, of which {first} belong to the beginning: "
            f"the load has to last longer"
        )
    seconds = ends_s[last - 1] - ends_s[first - 1]
    return Steady(
        tps=(last - first) / seconds,
        seconds=seconds,
        late_ms=1000 * fmean(call.late_s for call in calls[first:last]),
    )


def per_second(calls: Sequence[Call], *, step_s: float) -> list[tuple[float, float]]:
    """Return how many calls a second were answered, for each step from the first answer on.

    The last step, which nobody knows the end of, is left out.

    Returns:
        The middle of each step in seconds, and its calls a second.
    """
    began_s = calls[0].answered_s
    steps = [int((call.answered_s - began_s) / step_s) for call in calls]
    counts = [0] * steps[-1]
    for step in steps:
        if step < len(counts):
            counts[step] += 1
    return [((at + 0.5) * step_s, answered / step_s) for at, answered in enumerate(counts)]
