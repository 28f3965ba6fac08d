"""Earlier days, from the table of days: yesterday, and the median of seven.

A day that is not in the table is looked up in its own summary.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import median
from typing import Any

from feedback.logs import EventLog
from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import DayVerdict
from spark_audit.output.location import Location
from spark_audit.output.paths import Places
from spark_audit.say.day_table import read_lines

DAYS = 7
RECENT = 30
_PLAIN = ("requests", "errors", "pending", "in_flight")
_TIMES = ("p50_ms", "p99_ms")
_LOG = EventLog("onceward.audit")


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


def line_of(summary: Mapping[str, Any]) -> dict[str, Any]:
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
        output: `[audit] output`.
        today: YYYY-MM-DD.
        length_ms: of today's window; the counts of a longer or shorter one do not compare.
    """
    recent, alike = dict[str, Day](), dict[str, Day]()
    lines = read_lines(output)
    for one in _days_before(today):
        path = Places(output, one).summary
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
