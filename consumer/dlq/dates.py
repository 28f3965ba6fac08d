"""Points in time as people write them on a command line: ago, or ISO 8601. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import NamedTuple

from feedback.errors import SettingsError
from feedback.records.envelope import MAX_EPOCH_MS

_AGO = re.compile(r"([0-9]{1,9})([smhd])\Z")
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)


class DateRange(NamedTuple):
    """A stretch of time: from `since_ms` on and before `until_ms`; None is open."""

    since_ms: int | None = None
    until_ms: int | None = None


WHENEVER = DateRange()


def date_range_of(since: str | None, until: str | None, *, now_ms: int) -> DateRange:
    """Return the stretch that two points in time bound; see `moment_ms`.

    Raises:
        SettingsError: one of them is none, or the first is not before the second.

    >>> date_range_of("2s", None, now_ms=5000)
    DateRange(since_ms=3000, until_ms=None)
    """
    since_ms = None if since is None else moment_ms("since", since, now_ms=now_ms)
    until_ms = None if until is None else moment_ms("until", until, now_ms=now_ms)
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise SettingsError("--since must be before --until")
    return DateRange(since_ms, until_ms)


def moment_ms(name: str, text: str, *, now_ms: int) -> int:
    """Return a point in time in epoch ms.

    Args:
        name: of the option, for the error message.
        text: `90s`, `15m`, `2h` or `7d` for so long ago; else ISO 8601 with its zone.

    Raises:
        SettingsError: it is neither, or lies before 1970 or after 9999.

    >>> moment_ms("since", "2h", now_ms=10_000_000)
    2800000
    >>> moment_ms("since", "1970-01-01T00:00:02Z", now_ms=0)
    2000
    """
    ago = _AGO.match(text)
    if ago:
        return max(0, now_ms - int(ago[1]) * _UNITS_MS[ago[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not _BEGIN <= moment <= _END:
        raise SettingsError(
            f"--{name} {text!r}: write 15m, 2h or 7d for so long ago, "
            "or a time with its zone like 2026-01-31T09:00:00Z"
        )
    passed = moment - _BEGIN
    return passed.days * 86_400_000 + passed.seconds * 1000 + passed.microseconds // 1000


def whole_units(ms: int) -> str:
    """Return a duration in milliseconds in its largest whole unit.

    >>> [whole_units(one) for one in (-5, 59_999, 7_200_000, 400 * 86_400_000)]
    ['0s', '59s', '2h', '400d']
    """
    whole = max(0, ms)
    # From the smallest unit to the largest.
    *_, unit = ("s", *(one for one in _UNITS_MS if _UNITS_MS[one] <= whole))
    return f"{whole // _UNITS_MS[unit]}{unit}"


def iso(ms: int) -> str:
    """Return epoch ms, of 1970 to 9999, as `moment_ms` reads it: no part of it is lost.

    >>> iso(0), iso(5)
    ('1970-01-01T00:00:00Z', '1970-01-01T00:00:00.005Z')
    """
    return (instant(ms) if ms % 1000 else moment(ms)).replace(" ", "T")


def instant(ms: int) -> str:
    """Return epoch ms for a person as `moment` does, to the millisecond.

    >>> instant(5)
    '1970-01-01 00:00:00.005Z'
    """
    if not 0 <= ms <= MAX_EPOCH_MS:
        return str(ms)
    return f"{moment(ms)[:-1]}.{ms % 1000:03}Z"


def moment(ms: int | None) -> str:
    """Return epoch ms for a person, in UTC; a time outside the calendar as its number.

    >>> moment(0)
    '1970-01-01 00:00:00Z'
    """
    if ms is None:
        return ""
    if not 0 <= ms <= MAX_EPOCH_MS:
        return str(ms)
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
