"""How often a caller may ask: a bucket for each that fills up again, in this process alone."""

from __future__ import annotations

PERIODS_S = {"second": 1, "minute": 60, "hour": 3600}
# Of so many callers the buckets are kept; those that are full again are dropped first.
MOST_CALLERS = 10_000


class RateLimit:
    """The limit of each caller.

    Args:
        rate: "100/second": 100 at once, and again as many within each second.

    >>> limit = RateLimit("1/minute")
    >>> limit.take("shop", now_s=0.0), limit.take("shop", now_s=15.0)
    (0.0, 45.0)
    """

    def __init__(self, rate: str) -> None:
        count, period = rate.split("/")
        self._most = float(count)
        self._per_s = self._most / PERIODS_S[period]
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: str, *, now_s: float) -> float:
        """Count one call, and return 0; or the seconds until the next one is allowed."""
        if len(self._left) >= MOST_CALLERS and caller not in self._left:
            self._drop_full(now_s)
        left = self._at(caller, now_s)
        if left < 1:
            return (1 - left) / self._per_s
        self._left[caller] = (left - 1, now_s)
        return 0.0

    def _at(self, caller: str, now_s: float) -> float:
        left, at_s = self._left.get(caller, (self._most, now_s))
        return min(self._most, left + (now_s - at_s) * self._per_s)

    def _drop_full(self, now_s: float) -> None:
        open_ones = {one: it for one, it in self._left.items() if self._at(one, now_s) < self._most}
        # All of them are in use: the oldest begins anew.
        self._left = open_ones if len(open_ones) < MOST_CALLERS else dict([*open_ones.items()][1:])
