"""How many failures there were over time, in as many steps as there is room for. Pure."""

from __future__ import annotations

from typing import NamedTuple

# The units in which people count time; beyond them, each step is twice as long.
_STEPS_MS = tuple(
    minutes * 60_000 for minutes in (1, 5, 15, 30, 60, 180, 360, 720, 1440, 7 * 1440, 28 * 1440)
)
# How many steps are counted separately: memory stays the same however long the time is.
MOST_KEPT = 1000


class Bar(NamedTuple):
    """The count from `begin_ms` on, for `step_ms`."""

    begin_ms: int
    step_ms: int
    letters: int


class Histogram:
    """Counts points in time."""

    def __init__(self) -> None:
        self._step_ms = _STEPS_MS[0]
        self._counts: dict[int, int] = {}

    def add(self, at_ms: int) -> None:
        """Count one more at this epoch ms."""
        step = at_ms // self._step_ms
        self._counts[step] = self._counts.get(step, 0) + 1
        while len(self._counts) > MOST_KEPT:
            self._widen()

    def bars(self, most: int) -> list[Bar]:
        """Return the counts from the first step to the last, with the empty ones between.

        Args:
            most: so many bars at most, at least 2.
        """
        if not self._counts:
            return []
        while max(self._counts) - min(self._counts) >= most:
            self._widen()
        steps = range(min(self._counts), max(self._counts) + 1)
        return [
            Bar(step * self._step_ms, self._step_ms, self._counts.get(step, 0)) for step in steps
        ]

    def _widen(self) -> None:
        longer = [step for step in _STEPS_MS if step > self._step_ms]
        wider = longer[0] if longer else 2 * self._step_ms
        counts: dict[int, int] = {}
        for step, count in self._counts.items():
            # Every step is a multiple of the smaller ones, so that a whole step goes into one.
            place = step * self._step_ms // wider
            counts[place] = counts.get(place, 0) + count
        self._step_ms, self._counts = wider, counts
