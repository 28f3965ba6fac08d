"""The geometry of a chart: lines over time, their ceilings, and the two scales. Pure.

Lengths are in the units of the drawing, with the origin at its left and upper corner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spark_audit.say.charts import nice_top
from tests.bench.modes.found import Found
from tests.bench.modes.mode import Mode
from tests.bench.modes.steady import per_second

WIDTH, HEIGHT = 960.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 150.0, 96.0, 52.0
MOST_STEPS = 120
# Shorter, the answers of one second of a batch would now and then be seen in the next.
SHORTEST_STEP_S = 2
LABEL_HEIGHT = 15.0
MOST_TIMES = 10

# Told apart by those who see no red or green as well (Okabe and Ito). Two that reach the same lie
# on each other, so the first drawn is the widest.
STROKES = {
    Mode.AT_MOST_ONCE: ("#56a6dd", 5.0),
    Mode.AT_LEAST_ONCE: ("#b35900", 2.0),
    Mode.BATCH: ("#8f2d6a", 2.0),
}


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on a scale and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """What one mode reached; `points` are pairs for a polyline."""

    name: str
    colour: str
    width: float
    points: str


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A dashed line; its text stands at `text_y`, out of the way of the others."""

    y: float
    text_y: float
    text: str


@dataclass(frozen=True, slots=True)
class Plotted:
    """All that is drawn."""

    lines: tuple[Line, ...]
    ceilings: tuple[Ceiling, ...]
    rates: tuple[Mark, ...]
    times: tuple[Mark, ...]
    step_s: float


def plotted(found: Sequence[Found]) -> Plotted:
    """Return the drawing of measurements of one arm and N, one of each mode.

    Raises:
        ValueError: nothing was measured.
    """
    step_s = step_of(max(one.calls[-1].answered_s - one.calls[0].answered_s for one in found))
    curves = [per_second(one.calls, step_s=step_s) for one in found]
    ceilings = [one.case.ceiling_tps for one in found]
    highest = max(rate for rates in (ceilings, *map(_rates, curves)) for rate in rates)
    top = nice_top(math.ceil(highest))
    until_s = max(len(curve) for curve in curves) * step_s
    lines = tuple(
        Line(
            name=f"{one.case.mode}: {one.steady.tps:.1f}/s, {one.share:.1%} of its ceiling",
            colour=STROKES[one.case.mode][0],
            width=STROKES[one.case.mode][1],
            points=" ".join(f"{_x(at_s, until_s):.1f},{_y(rate, top):.1f}" for at_s, rate in curve),
        )
        for one, curve in zip(found, curves, strict=True)
    )
    return Plotted(
        lines=lines,
        ceilings=_ceilings(sorted(set(ceilings)), top),
        rates=tuple(Mark(_y(top * part / 4, top), f"{top * part / 4:g}") for part in range(5)),
        times=tuple(Mark(_x(at, until_s), str(at)) for at in times_of(until_s)),
        step_s=step_s,
    )


def step_of(seconds: float) -> float:
    """Return how many seconds a point of the line stands for.

    >>> [step_of(seconds) for seconds in (5.0, 60.0, 600.0)]
    [2.0, 2.0, 5.0]
    """
    return float(max(SHORTEST_STEP_S, math.ceil(seconds / MOST_STEPS)))


def times_of(until_s: float) -> range:
    """Return round numbers of seconds from 0 on, `MOST_TIMES` at most.

    >>> [list(times_of(seconds))[1] for seconds in (5.0, 60.0, 600.0)]
    [1, 10, 100]
    """
    steps = (step * 10**power for power in range(6) for step in (1, 2, 5))
    step = next(step for step in steps if until_s / step <= MOST_TIMES - 1)
    return range(0, int(until_s) + 1, step)


def _rates(curve: Sequence[tuple[float, float]]) -> list[float]:
    return [rate for _, rate in curve]


def _ceilings(rates: Sequence[float], top: int) -> tuple[Ceiling, ...]:
    found: list[Ceiling] = []
    text_y = math.inf
    for rate in rates:  # from the lowest up: its text pushes the next one's away
        y = _y(rate, top)
        text_y = min(y, text_y - LABEL_HEIGHT)
        found.append(Ceiling(y, text_y, f"ceiling {rate:.4g}/s"))
    return tuple(found)


def _x(at_s: float, until_s: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * at_s / until_s


def _y(rate: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * rate / top
