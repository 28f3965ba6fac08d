"""Pauses between tries that double. Pure."""

from __future__ import annotations

# Far beyond every longest pause, and no float is too small for it.
_MOST_DOUBLINGS = 64


def doubled(first: float, longest: float, failures: int) -> float:
    """Return the pause after so many failures in a row: none after none.

    Args:
        first: after one failure; each further one doubles it.
        longest: the pause at most.

    >>> [doubled(0.5, 3.0, failures) for failures in range(5)]
    [0.0, 0.5, 1.0, 2.0, 3.0]
    """
    if failures <= 0:
        return 0.0
    return float(min(longest, first * 2 ** min(failures - 1, _MOST_DOUBLINGS)))
