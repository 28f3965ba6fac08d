"""Percentiles, medians and spreads: pure functions of numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """What several rounds gave: the median, and the smallest and largest of them."""

    median: float
    low: float
    high: float


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of all values do not exceed (nearest rank).

    >>> percentile([4.0, 1.0, 3.0, 2.0], 50)
    2.0

    Raises:
        ValueError: there are no values, or `percent` is not above 0 and up to 100.
    """
    if not values or not 0 < percent <= 100:
        raise ValueError(f"no {percent}th percentile of {len(values)} values")
    rank = math.ceil(len(values) * percent / 100)
    return sorted(values)[rank - 1]


def spread(values: Sequence[float | None]) -> Spread | None:
    """Return the spread of the values that are there; None when none is.

    >>> spread([3.0, None, 1.0])
    Spread(median=2.0, low=1.0, high=3.0)
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Spread(statistics.median(known), min(known), max(known))


def median_ratio(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """Return the median of first over second, over the pairs that have both; None without any.

    >>> median_ratio([(8.0, 2.0), (9.0, 3.0), (1.0, None)])
    3.5
    """
    ratios = [first / second for first, second in pairs if first is not None and second]
    return statistics.median(ratios) if ratios else None
