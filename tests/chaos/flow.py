"""How work flowed through a fault: gaps between the runs that handlers began. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from tests.kit.banking import Begin

Place = tuple[str, int]


def longest_gap_s(begins: Iterable[Begin], from_s: float, to_s: float) -> float:
    """Return the longest time within these without a run begun.

    >>> longest_gap_s([Begin("a", 1, 2.0), Begin("b", 1, 2.5)], 1.0, 5.0)
    2.5
    """
    inside = sorted(begin.at_s for begin in begins if from_s < begin.at_s < to_s)
    moments = [from_s, *inside, to_s]
    return max(after - before for before, after in pairwise(moments))


def resumed_after_s(begins: Iterable[Begin], from_s: float) -> float:
    """Return how long after a moment the next run began; infinite when none did."""
    return min((one.at_s - from_s for one in begins if one.at_s >= from_s), default=float("inf"))


def slowest_place_s(begins: Sequence[Begin], places: Mapping[str, Place], from_s: float) -> float:
    """Return how long after a moment the last partition had its first run.

    Only partitions that were given something to do after it are looked at: `places` says what
    was sent where since.
    """
    first: dict[Place, float] = dict.fromkeys(places.values(), float("inf"))
    for begin in begins:
        place = places.get(begin.request_id)
        if place is not None and begin.at_s >= from_s:
            first[place] = min(first[place], begin.at_s - from_s)
    return max(first.values(), default=float("inf"))
