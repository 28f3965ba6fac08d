"""The span of time whose requests a run judges."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from feedback.errors import NotAvailable, SettingsError

_DAY_MS = 86_400_000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open span of record timestamps, and the date its files are named by.

    Args:
        date: YYYY-MM-DD.
        since_ms: epoch ms, the first that belongs to it.
        until_ms: epoch ms, the first that does not.
    """

    date: str
    since_ms: int
    until_ms: int


def window_of(
    date: str, since: str | None = None, until: str | None = None, *, now_ms: int
) -> Window:
    """Return one UTC day, or the part of it or around it that `since` and `until` name.

    A day that is not over yet is judged as far as it goes.

    Args:
        date: YYYY-MM-DD.
        since: ISO 8601 with its zone, in place of the day's begin.
        until: likewise, in place of the day's end.

    Raises:
        SettingsError: a text is no date or no time with a zone, or the window is empty.
        NotAvailable: it begins in the future.
    """
    begin_ms = _begin_of(date)
    since_ms = begin_ms if since is None else _moment("since", since)
    until_ms = begin_ms + _DAY_MS if until is None else _moment("until", until)
    if since_ms < 0:
        # Kafka reads a negative time as a word of its own: the log's end, or its begin.
        raise SettingsError(f"the window begins before 1970 ({date}): correct the date")
    if since_ms >= until_ms:
        raise SettingsError("the window is empty: --since must be before --until")
    if since_ms > now_ms or begin_ms > now_ms:
        raise NotAvailable(f"{date} is in the future: there is nothing to judge yet")
    return Window(date, since_ms, until_ms)


def _begin_of(date: str) -> int:
    try:
        if not _DATE.match(date):
            raise ValueError
        return _ms(datetime.fromisoformat(date).replace(tzinfo=UTC))
    except ValueError:
        raise SettingsError(f"{date!r} is no date: write it as YYYY-MM-DD") from None


def _moment(name: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise SettingsError(
            f"--{name} {text!r} is no time with a zone: write it as 2026-01-31T09:00:00Z"
        )
    return _ms(moment)


def _ms(moment: datetime) -> int:
    # In whole numbers: a float of this size is off by fractions of a millisecond.
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since_epoch.days * 86_400 + since_epoch.seconds) * 1000 + (
        since_epoch.microseconds // 1000
    )
