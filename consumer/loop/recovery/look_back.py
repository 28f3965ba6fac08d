"""How far back a sweep looks for rows without a confirmed status. Pure.

While a long snapshot is open (a backup, an audit), the database keeps in its index every request
that was told since: one look over the whole index reads all of them. So each sweep looks at the
last seconds, and from there goes further back in slices, as far as it gets in a moment; the next
sweep goes on there. A quick slice is followed by a wider one: without such a snapshot every sweep
looks at everything.
"""

from __future__ import annotations

from typing import NamedTuple

from consumer.journal.pacing import EVER_MS

FIRST_MS = 10_000
NARROWEST_MS = 1_000
FACTOR = 8
# A slice as wide as this, eleven days, is followed by all the rest: little is kept for so long.
WIDEST_MS = 10**9
# The clock here and the database's need not go alike.
MARGIN_MS = 1_000


class AgeSlice(NamedTuple):
    """A slice: rows that ended at least, and at most, so long ago."""

    youngest_ms: int
    oldest_ms: int


class LookBack:
    """Where the looks of one sweeper are.

    Args:
        youngest_ms: the age at which a look begins.
        budget_s: how long a sweep may look back; a slice is made so wide that it takes less.
    """

    def __init__(self, *, youngest_ms: int, budget_s: float) -> None:
        self._budget_s = budget_s
        self._fresh = AgeSlice(youngest_ms, youngest_ms + FIRST_MS)
        self._width_ms = FIRST_MS
        self._left_s = 0.0
        # The age of the last slice, and since when.
        self._reached_ms, self._reached_s = self._fresh.oldest_ms, 0.0
        self._is_first = True
        self._is_through = True

    def begin(self) -> None:
        """Begin a sweep."""
        self._left_s = self._budget_s
        self._is_first, self._is_through = True, False

    def next(self, now_s: float) -> AgeSlice | None:
        """Return the slice to look at now; None when this sweep has looked enough."""
        if self._is_first:
            return self._fresh
        if self._is_through or self._left_s <= 0:
            return None
        youngest_ms = self._reached_ms + int(1000 * (now_s - self._reached_s)) - MARGIN_MS
        slice_ = AgeSlice(youngest_ms, youngest_ms + MARGIN_MS + self._width_ms)
        # Until it is known to be quick: one that the database gives up on comes back narrower.
        self._width_ms = max(NARROWEST_MS, self._width_ms // FACTOR)
        return slice_

    def looked(self, ages: AgeSlice, began_s: float, took_s: float) -> None:
        """Note that all of a slice was looked at.

        Args:
            began_s: the time that was given to `next`.
            took_s: how long the database took.
        """
        self._left_s -= took_s
        if self._is_first:
            self._is_first = False
            if self._reached_ms == ages.oldest_ms:
                self._reached_s = began_s
            return
        self._reached_ms, self._reached_s = ages.oldest_ms, began_s
        self._width_ms = self._next_width_ms(ages, took_s)
        if ages.oldest_ms >= EVER_MS:
            self._is_through = True
            self._reached_ms, self._width_ms = self._fresh.oldest_ms, FIRST_MS

    def _next_width_ms(self, ages: AgeSlice, took_s: float) -> int:
        width_ms = ages.oldest_ms - ages.youngest_ms - MARGIN_MS
        if took_s < self._budget_s / FACTOR:
            return EVER_MS if width_ms >= WIDEST_MS else width_ms * FACTOR
        return width_ms if took_s < self._budget_s else max(NARROWEST_MS, width_ms // FACTOR)
