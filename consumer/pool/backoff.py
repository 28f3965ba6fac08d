"""When a child that could not start is tried again."""

from __future__ import annotations

_FIRST_S = 0.1
_LONGEST_S = 5.0


def respawn_delay_s(failures: int) -> float:
    """Return how long to wait before another start: nothing, then 0.1 s doubling to 5 s.

    Args:
        failures: how many starts in a row ended before the child was ready.
    """
    if failures == 0:
        return 0.0
    return float(min(_LONGEST_S, _FIRST_S * 2 ** min(failures - 1, 10)))
