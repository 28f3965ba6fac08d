"""The geometry of the page's charts: bars by hour, and latencies as a heat map. Pure.

Lengths are shares of 100 of the drawing, which is stretched to the width of the page; so nothing is
written inside it, and labels stand beside it as ordinary text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_audit.judge.figures import BUCKETS_PER_OCTAVE, HOUR_MS
from spark_audit.output.formatting import moment

# More columns are too narrow to be seen on a phone.
MOST_COLUMNS = 48
# A cell that holds a single request must still be seen.
FAINTEST = 0.14


@dataclass(frozen=True, slots=True)
class Mark:
    """A rectangle of a drawing.

    Args:
        x, y, width, height: of 100, y from the top.
        weight: 0 to 1, how strong its colour is.
    """

    x: float
    y: float
    width: float
    height: float
    weight: float
    title: str


@dataclass(frozen=True, slots=True)
class Label:
    """A text beside a drawing; `at` is of 100 along the axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each column; `scale` has the labels of its height, 0 at the bottom."""

    marks: tuple[Mark, ...]
    scale: tuple[Label, ...]
    times: tuple[Label, ...]
    highest: int
    total: int


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Columns of time, rows of latency; the fastest row at the bottom."""

    marks: tuple[Mark, ...]
    rows: tuple[Label, ...]
    times: tuple[Label, ...]
    highest: int


@dataclass(frozen=True, slots=True)
class HourColumn:
    """Some hours taken together."""

    title: str
    requests: int
    errors: int
    latencies: Mapping[int, int]


def columns_of(summary: Mapping[str, Any]) -> list[HourColumn]:
    """Return the columns of a window's hours: hours, or several together where there are many."""
    hours = summary["by_hour"]
    step = max(1, math.ceil(len(hours) / MOST_COLUMNS))
    columns = []
    for at in range(0, len(hours), step):
        some = hours[at : at + step]
        since_ms = summary["since_ms"] + at * HOUR_MS
        until_ms = min(since_ms + len(some) * HOUR_MS, summary["until_ms"])
        latencies: Counter[int] = Counter()
        for hour in some:
            latencies.update({int(bucket): n for bucket, n in hour["latencies"].items()})
        columns.append(
            HourColumn(
                _span(since_ms, until_ms),
                sum(hour["requests"] for hour in some),
                sum(hour["errors"] for hour in some),
                latencies,
            )
        )
    return columns


def bars(counts: Sequence[tuple[str, int]], times: Sequence[Label], *, what: str) -> Bars:
    """Return the bars of counts.

    Args:
        counts: the column's title and its count.
        what: is counted, as the titles say it.
    """
    highest = max((count for _, count in counts), default=0)
    top = nice_top(highest)
    width = 100 / max(1, len(counts))
    marks = tuple(
        Mark(
            round((at + 0.11) * width, 3),
            round(100 - 100 * count / top, 3),
            round(width * 0.78, 3),
            round(100 * count / top, 3),
            1.0,
            f"{title}: {count:,} {what}",
        )
        for at, (title, count) in enumerate(counts)
        if count
    )
    # No half of an odd number: requests are whole.
    halves = (0, top // 2, top) if top % 2 == 0 else (0, top)
    scale = tuple(Label(100 * value / top, short(value)) for value in halves)
    return Bars(marks, scale, tuple(times), highest, sum(count for _, count in counts))


def heat_map(columns: Sequence[HourColumn], times: Sequence[Label]) -> HeatMap:
    """Return the heat map of the columns' latencies, a row for each doubling."""
    cells = [_octaves(column.latencies) for column in columns]
    found = [octave for column in cells for octave in column]
    if not found:
        return HeatMap((), (), tuple(times), 0)
    lowest, rows = min(found), max(found) - min(found) + 1
    highest = max(max(column.values(), default=0) for column in cells)
    width, height = 100 / len(columns), 100 / rows
    marks = tuple(
        Mark(
            round(at * width, 3),
            round(100 - (octave - lowest + 1) * height, 3),
            round(width, 3),
            round(height, 3),
            _weight(count, highest),
            f"{columns[at].title}, {took(2**octave)} to {took(2 ** (octave + 1))}: "
            f"{count:,} requests",
        )
        for at, column in enumerate(cells)
        for octave, count in sorted(column.items())
    )
    labels = tuple(Label((row + 0.5) * height, took(2 ** (lowest + row))) for row in range(rows))
    return HeatMap(marks, labels, tuple(times), highest)


def times_of(since_ms: int, until_ms: int) -> tuple[Label, ...]:
    """Return five labels from the begin of a window to its end, no two of them the same."""
    times = [since_ms + (until_ms - since_ms) * quarter // 4 for quarter in range(5)]
    texts: list[str] = []
    # The shortest that tells them apart.
    for form in _CLOCK if until_ms - since_ms <= 24 * HOUR_MS else _CALENDAR:
        texts = [_written(at_ms, form) for at_ms in times]
        if form.startswith("%H") and texts[-1].strip("0:.") == "":
            texts[-1] = f"24{texts[-1][2:]}"
        if len(set(texts)) == len(texts):
            break
    return tuple(Label(25.0 * quarter, text) for quarter, text in enumerate(texts))


def nice_top(highest: int) -> int:
    """Return the least round number that is not below; mostly its half is round as well.

    >>> [nice_top(count) for count in (0, 1, 3, 7, 11, 1_234)]
    [1, 1, 3, 8, 12, 1600]
    """
    if highest <= 1:
        return 1
    power: int = 10 ** (len(str(highest)) - 1)
    tops = (step * power // 10 for step in (10, 12, 16, 20, 24, 30, 40, 50, 60, 80, 100))
    return next(top for top in tops if top >= highest)


def short(value: float) -> str:
    """Return a count in few characters.

    >>> [short(value) for value in (0, 999, 1_500, 20_000, 2_500_000)]
    ['0', '999', '1.5k', '20k', '2.5M']
    """
    for limit, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:g}"


def took(us: float) -> str:
    """Return a time span in its best unit.

    >>> [took(us) for us in (512, 1_024, 262_144, 1_048_576, 90_000_000, 7_200_000_000)]
    ['0.51 ms', '1 ms', '260 ms', '1 s', '1.5 min', '2 h']
    """
    size, unit = next((one for one in _UNITS if us >= one[0]), _UNITS[-1])
    # Two digits are enough to compare, and more would not fit beside a chart on a phone.
    return f"{float(f'{us / size:.2g}'):g} {unit}"


_CLOCK = ("%H:%M", "%d %b %H:%M", "%H:%M:%S", "%H:%M:%S.%f")
_CALENDAR = ("%d %b", "%d %b %H:%M", "%d %b %Y")
_MINUTE_MS = 60_000
_UNITS = (
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "min"),
    (1_000_000, "s"),
    (1_000, "ms"),
)


def _octaves(latencies: Mapping[int, int]) -> Counter[int]:
    octaves: Counter[int] = Counter()
    for bucket, count in latencies.items():
        octaves[bucket // BUCKETS_PER_OCTAVE] += count
    return octaves


def _weight(count: int, highest: int) -> float:
    # By the logarithm: people look at the map for a few slow requests.
    share = math.log1p(count) / math.log1p(highest)
    return round(FAINTEST + (1 - FAINTEST) * share, 3)


def _span(since_ms: int, until_ms: int) -> str:
    is_whole = since_ms % _MINUTE_MS == until_ms % _MINUTE_MS == 0
    form = "%H:%M" if is_whole else "%H:%M:%S"
    return f"{_written(since_ms, f'%d %b {form}')} to {_written(until_ms, form)}"


def _written(at_ms: int, form: str) -> str:
    found = moment(at_ms)
    if found is None:
        return str(at_ms)
    text = f"{found:{form}}"
    return text[:-3] if form.endswith("%f") else text
