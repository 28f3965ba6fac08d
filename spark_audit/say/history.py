"""Earlier days, from their table, or from its own summary: yesterday, and the median of seven.

A day's line is made from its summary, and must never say anything else. So it is taken out before
the day's report is replaced, and put in after: a run that dies between leaves a day without a line,
whose summary is read instead. Days that were judged before there was a table have none either.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median
from typing import Any

from feedback.errors import NotAvailable
from feedback.logs import EventLog
from spark_audit.findings import AT_RISK, Finding
from spark_audit.judge.day_verdict import DayVerdict
from spark_audit.output.location import Location
from spark_audit.output.outputs import put_text
from spark_audit.output.paths import DayPaths
from spark_audit.say.wording import label, number

NAME = "days.jsonl"
VERSION = 1
_LOG = EventLog("onceward.audit")

Line = Mapping[str, Any]


def read_lines(output: Location) -> dict[str, Line]:
    """Return the line of each day by its date; none from a file that is no table."""
    path = output / NAME
    try:
        lines = [json.loads(one) for one in path.read_text(encoding="utf-8").splitlines()]
        return {str(one["date"]): one for one in lines if one["table"] == VERSION}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError):
        # The summaries say the same.
        _LOG.warning("audit.day_table_unreadable", path=path)
        return {}


def take_out(output: Location, date: str) -> None:
    """Remove a day's line: its report is about to be replaced."""
    lines = read_lines(output)
    if lines.pop(date, None) is not None:
        _write(output, lines)


def put_in(output: Location, line: Line) -> None:
    """Add a day's line; the caller holds the lock of the folder."""
    _write(output, {**read_lines(output), line["date"]: {**line, "table": VERSION}})


def _write(output: Location, lines: Mapping[str, Line]) -> None:
    texts = (json.dumps(lines[date], sort_keys=True) for date in sorted(lines))
    try:
        put_text(output / NAME, "".join(f"{one}\n" for one in texts))
    except OSError as error:
        raise NotAvailable(f"{output / NAME} cannot be written: {error.strerror}") from error


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


DAYS = 7
RECENT = 30
_PLAIN = ("requests", "errors", "pending", "in_flight")
_TIMES = ("p50_ms", "p99_ms")


@dataclass(frozen=True, slots=True)
class Day:
    """An earlier day, as its own summary says.

    Args:
        numbers: by name; findings by theirs. A latency is None on a day without one.
    """

    date: str
    verdict: str
    numbers: dict[str, float | None]

    def as_json(self) -> dict[str, Any]:
        """Return the form in which a summary holds it."""
        return {"date": self.date, "verdict": self.verdict, **_nested(self.numbers)}


@dataclass(frozen=True, slots=True)
class History:
    """The days before.

    Args:
        days: at most seven that compare, the latest first.
        recent: all of the last thirty.
    """

    yesterday: Day | None = None
    days: tuple[Day, ...] = ()
    recent: tuple[Day, ...] = ()

    def median_as_json(self) -> dict[str, Any] | None:
        """Return the median of each number, and of how many days; None without any.

        A day that was not seen whole is left out: its counts are too low.
        """
        whole = [day for day in self.days if day.verdict != DayVerdict.INCOMPLETE]
        if not whole:
            return None
        names = (*_PLAIN, *_TIMES, *(finding.value for finding in Finding))
        numbers = {name: _median(day.numbers.get(name) for day in whole) for name in names}
        return {"days": len(whole), **_nested(numbers)}


def day_line(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a summary that the table of days holds."""
    counts, latency = summary["counts"], summary["latency"]
    return {
        **{name: summary[name] for name in ("version", "date", "since_ms", "until_ms", "verdict")},
        "counts": {name: counts[name] for name in (*_PLAIN, "findings")},
        "latency": {name: latency[name] for name in _TIMES},
    }


def read_history(output: Location, today: str, *, length_ms: int) -> History:
    """Return the days before; a file that is no summary counts as absent.

    Args:
        length_ms: of today's window; the counts of a longer or shorter one do not compare.
    """
    recent, alike = dict[str, Day](), dict[str, Day]()
    lines = read_lines(output)
    for one in _days_before(today):
        path = DayPaths(output, one).summary
        try:
            found = lines.get(one) or json.loads(path.read_text(encoding="utf-8"))
            if found["version"] == 1:
                recent[one] = _day(one, found)
                if _length_ms(found) == length_ms:
                    alike[one] = recent[one]
        except FileNotFoundError:
            continue
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            _LOG.warning("audit.summary_unreadable", path=path)
    week = [alike[one] for one in _days_before(today)[:DAYS] if one in alike]
    return History(alike.get(_days_before(today)[0]), tuple(week), tuple(recent.values()))


def _days_before(today: str) -> Sequence[str]:
    return [str(date.fromisoformat(today) - timedelta(days=back)) for back in range(1, RECENT + 1)]


def _length_ms(summary: Mapping[str, Any]) -> int:
    return int(summary["until_ms"]) - int(summary["since_ms"])


def _day(name: str, summary: Mapping[str, Any]) -> Day:
    counts, latency = summary["counts"], summary["latency"]
    numbers: dict[str, float | None] = {plain: int(counts[plain]) for plain in _PLAIN}
    for time in _TIMES:
        numbers[time] = None if latency[time] is None else float(latency[time])
    # A finding that is younger than the summary was not looked for.
    found = {one.value: counts["findings"].get(one.value) for one in Finding}
    numbers |= {one: int(count) for one, count in found.items() if count is not None}
    return Day(name, str(DayVerdict(summary["verdict"])), numbers)


def _nested(numbers: dict[str, float | None]) -> dict[str, Any]:
    plain = {name: numbers.get(name) for name in (*_PLAIN, *_TIMES)}
    return {**plain, "findings": {one.value: numbers.get(one.value) for one in Finding}}


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
