"""Ages of workers and of their requests, for a person. Pure."""

from __future__ import annotations


def age(seconds: float | None) -> str:
    """Return an age in the unit that says enough.

    >>> [age(one) for one in (0.25, 59, 60, 7200, 200_000, None)]
    ['0.2 s', '59 s', '1 min', '2 h', '2 d', '']
    """
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    for limit_s, unit_s, name in ((60, 1, "s"), (3600, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit_s:
            return f"{int(seconds // unit_s)} {name}"
    return f"{int(seconds // 86_400):,} d"
