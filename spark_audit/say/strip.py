"""The thirty days before a day, as its page shows them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from spark_audit.findings import AT_RISK
from spark_audit.say.history import RECENT, Day
from spark_audit.say.wording import label, number


@dataclass(frozen=True, slots=True)
class DayMark:
    """A day of the strip.

    Args:
        verdict: of its audit; `none` where there was none.
        href: of its page, relative to another day's; empty where it has none any more.
        said: the day in a line.
    """

    date: str
    verdict: str
    href: str
    said: str


def strip_of(
    days: Iterable[Day], today: str, *, has_page: Callable[[str], bool]
) -> tuple[DayMark, ...]:
    """Return a mark for each of the days before, the latest last.

    Args:
        days: their verdicts and counts.
        today: YYYY-MM-DD, the page's own day.
        has_page: whether a date's page is there.
    """
    known = {day.date: day for day in days}
    dates = (str(date.fromisoformat(today) - timedelta(days=back)) for back in range(RECENT, 0, -1))
    return tuple(_mark(one, known.get(one), has_page) for one in dates)


def _mark(name: str, day: Day | None, has_page: Callable[[str], bool]) -> DayMark:
    if day is None:
        return DayMark(name, "none", "", f"{name}: no audit")
    href = f"../date={name}/report.html" if has_page(name) else ""
    found = ((day.numbers.get(one.value) or 0, label(one.value)) for one in AT_RISK)
    at_risk = ", ".join(f"{number(count)} {what}" for count, what in found if count)
    said = f"{name}: {day.verdict}, {number(day.numbers['requests'])} requests"
    return DayMark(name, day.verdict, href, f"{said}, {at_risk}" if at_risk else said)
