"""How long, as people write it and as topics are named: `500ms`, `5s`, `2m`, `1h`. Pure."""

from __future__ import annotations

import re

Duration = str | int | float

# Longer than any deadline makes sense: a typing error, and more than a topic would keep.
LONGEST_MS = 30 * 24 * 3_600_000
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_TEXT = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")


def milliseconds(duration: Duration) -> int:
    """Return a duration in whole milliseconds.

    Args:
        duration: a text like `1.5s`, or seconds.

    Raises:
        ValueError: it is none, negative, or longer than 30 days.

    >>> milliseconds("2m"), milliseconds(0.25)
    (120000, 250)
    """
    if isinstance(duration, str):
        found = _TEXT.fullmatch(duration.strip())
        if found is None:
            raise ValueError(f"{duration!r}: write a duration like 500ms, 5s, 2m or 1h")
        ms = round(float(found[1]) * _UNITS_MS[found[2]])
    elif isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise ValueError(f"{duration!r}: give a duration like 5s, or seconds")
    elif not 0 <= duration <= LONGEST_MS / 1000:
        raise ValueError(f"{duration!r}: a duration is 0 s to 30 days")
    else:
        ms = round(duration * 1000)
    if ms > LONGEST_MS:
        raise ValueError(f"{duration!r}: a duration is 0 s to 30 days")
    return ms


def named(ms: int) -> str:
    """Return milliseconds in the largest unit that holds them whole.

    >>> named(120_000), named(90_000), named(1_500), named(0)
    ('2m', '90s', '1500ms', '0ms')
    """
    for unit in ("h", "m", "s"):
        if ms and ms % _UNITS_MS[unit] == 0:
            return f"{ms // _UNITS_MS[unit]}{unit}"
    return f"{ms}ms"
