"""How far back a sweep looks: at everything where that is quick, else at all of it in turns."""

from __future__ import annotations

import itertools

from consumer.journal.pacing import EVER_MS
from consumer.loop.recovery.look_back import FIRST_MS, MARGIN_MS, AgeSlice, LookBack

YOUNGEST_MS = 5_000
BUDGET_S = 0.1


def _sweep(
    look: LookBack, now_s: float, cost_s: float = 0.0, entries_to_ms: int = 0
) -> list[AgeSlice]:
    """Return the slices of one sweep; each second of the past up to an age costs so much."""
    slices = []
    look.begin()
    while (ages := look.next(now_s)) is not None:
        slices.append(ages)
        seconds = max(0, min(ages.oldest_ms, entries_to_ms) - ages.youngest_ms) / 1000
        look.looked(ages, now_s, seconds * cost_s)
    return slices


def _has_no_gap(slices: list[AgeSlice]) -> bool:
    pairs = itertools.pairwise(slices)
    return all(later.youngest_ms <= earlier.oldest_ms for earlier, later in pairs)


def test_each_sweep_looks_at_everything_where_that_is_quick() -> None:
    look = LookBack(youngest_ms=YOUNGEST_MS, budget_s=BUDGET_S)
    for now_s in (1_000.0, 1_003.0):
        slices = _sweep(look, now_s)
        assert slices[0] == AgeSlice(YOUNGEST_MS, YOUNGEST_MS + FIRST_MS)
        assert _has_no_gap(slices)
        assert slices[-1].oldest_ms >= EVER_MS
        assert len(slices) < 10


def test_where_it_is_slow_a_sweep_takes_a_moment_and_all_is_looked_at_in_the_end() -> None:
    look = LookBack(youngest_ms=YOUNGEST_MS, budget_s=BUDGET_S)
    day_ms, cost_s, now_s = 86_400_000, 0.0005, 1_000.0
    reached_ms, spent_s = 0, []
    for _ in range(2_000):
        slices = _sweep(look, now_s, cost_s, day_ms)
        assert slices[0] == AgeSlice(YOUNGEST_MS, YOUNGEST_MS + FIRST_MS)
        for ages in slices[1:]:
            # Since the slice before some time has passed: nothing lies between them.
            assert ages.youngest_ms <= max(reached_ms, FIRST_MS + YOUNGEST_MS) + 3_000
            reached_ms = ages.oldest_ms
        seconds = [min(one.oldest_ms, day_ms) - min(one.youngest_ms, day_ms) for one in slices]
        spent_s.append(sum(seconds) * cost_s / 1000)
        if reached_ms >= EVER_MS:
            break
        now_s += 3.0
    assert reached_ms >= EVER_MS
    assert max(spent_s) < BUDGET_S * 3


def test_a_slice_that_the_database_gave_up_on_comes_back_narrower() -> None:
    look = LookBack(youngest_ms=YOUNGEST_MS, budget_s=BUDGET_S)
    look.begin()
    fresh = look.next(0.0)
    assert fresh is not None
    look.looked(fresh, 0.0, 0.0)
    widths = []
    for _ in range(3):
        ages = look.next(0.0)
        assert ages is not None
        widths.append(ages.oldest_ms - ages.youngest_ms - MARGIN_MS)
        look.begin()
        again = look.next(0.0)
        assert again == fresh
        look.looked(fresh, 0.0, 0.0)
    assert widths[0] > widths[1] >= widths[2] > 0
