"""The geometry of the charts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_audit.judge.figures import Hour
from spark_audit.say.charts import (
    MOST_COLUMNS,
    Bars,
    HeatMap,
    Label,
    Mark,
    bars,
    columns_of,
    heat_map,
    nice_top,
    short,
    times_of,
    took,
)
from tests.spark_audit.say.samples import DAY_MS, HOUR_MS, SINCE_MS, summary

TIMES = times_of(SINCE_MS, SINCE_MS + DAY_MS)


def _bars(*counts: int) -> Bars:
    return bars([(f"h{at}", count) for at, count in enumerate(counts)], TIMES, what="requests")


def _heat(*latencies: dict[int, int]) -> HeatMap:
    hours = tuple(Hour(sum(one.values()), 0, one) for one in latencies)
    found = summary(hours=hours, until_ms=SINCE_MS + len(hours) * HOUR_MS)
    return heat_map(columns_of(found), TIMES)


def _is_inside(mark: Mark) -> bool:
    edges = (mark.x, mark.y, mark.x + mark.width, mark.y + mark.height)
    return all(-0.01 <= edge <= 100.01 for edge in edges)


def test_a_bar_is_as_high_as_its_count() -> None:
    found = _bars(5, 0, 10)
    assert [(one.y, one.height) for one in found.marks] == [(50.0, 50.0), (0.0, 100.0)]
    assert [one.title for one in found.marks] == ["h0: 5 requests", "h2: 10 requests"]
    assert (found.highest, found.total) == (10, 15)


def test_the_scale_of_few_has_no_half_requests() -> None:
    assert _bars(1).scale == (Label(0, "0"), Label(100, "1"))
    assert [one.text for one in _bars(3, 4).scale] == ["0", "2", "4"]
    assert _bars(0, 0).marks == ()


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=MOST_COLUMNS))
def test_every_bar_lies_within_the_drawing(counts: list[int]) -> None:
    found = _bars(*counts)
    assert all(map(_is_inside, found.marks))
    assert len(found.marks) == sum(count > 0 for count in counts)
    assert nice_top(max(counts)) >= max(counts)


def test_the_fastest_row_is_at_the_bottom() -> None:
    found = _heat({80: 1}, {80: 1, 104: 9})
    assert [one.text for one in found.rows] == ["1 ms", "2 ms", "4.1 ms", "8.2 ms"]
    assert [(one.x, one.y) for one in found.marks] == [(0.0, 75.0), (50.0, 75.0), (50.0, 0.0)]
    assert found.marks[-1].weight == 1.0
    assert found.marks[-1].title == "20 Nov 01:00 to 02:00, 8.2 ms to 16 ms: 9 requests"


def test_a_row_takes_a_whole_doubling_together() -> None:
    found = _heat(dict.fromkeys(range(80, 88), 1))
    assert [one.title[-10:] for one in found.marks] == ["8 requests"]


@given(
    st.lists(
        st.dictionaries(st.integers(79, 330), st.integers(1, 10**9), max_size=5),
        min_size=1,
        max_size=30,
    )
)
def test_every_cell_can_be_seen_and_lies_within_the_drawing(
    latencies: list[dict[int, int]],
) -> None:
    found = _heat(*latencies)
    assert all(_is_inside(one) and 0.1 < one.weight <= 1 for one in found.marks)
    assert bool(found.marks) is any(latencies)


def test_a_long_window_takes_hours_together() -> None:
    hours = tuple(Hour(1, 0, {80: 1}) for _ in range(24 * 30))
    found = columns_of(summary(hours=hours, until_ms=SINCE_MS + 30 * DAY_MS))
    assert len(found) <= MOST_COLUMNS
    assert sum(one.requests for one in found) == 24 * 30
    assert found[0].latencies == {80: 15}


def test_the_last_column_ends_with_the_window() -> None:
    until_ms = SINCE_MS + HOUR_MS + HOUR_MS // 2
    found = columns_of(summary(hours=(Hour(1, 0, {}),) * 2, until_ms=until_ms))
    assert [one.title for one in found] == ["20 Nov 00:00 to 01:00", "20 Nov 01:00 to 01:30"]


def test_a_day_has_times_and_a_month_has_dates() -> None:
    assert [one.text for one in TIMES] == ["00:00", "06:00", "12:00", "18:00", "24:00"]
    month = times_of(SINCE_MS, SINCE_MS + 8 * DAY_MS)
    assert [one.text for one in month] == ["20 Nov", "22 Nov", "24 Nov", "26 Nov", "28 Nov"]


MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("since_ms", "length_ms", "expected"),
    [
        (0, 40 * MINUTE_MS, ["00:00", "00:10", "00:20", "00:30", "00:40"]),
        (0, MINUTE_MS, ["00:00:00", "00:00:15", "00:00:30", "00:00:45", "00:01:00"]),
        (DAY_MS - MINUTE_MS, MINUTE_MS, [*(f"23:59:{s}" for s in ("00", 15, 30, 45)), "24:00:00"]),
        (0, 1000, [f"00:00:00.{ms}" for ms in ("000", 250, 500, 750)] + ["00:00:01.000"]),
        (
            9 * HOUR_MS,
            DAY_MS,
            ["20 Nov 09:00", "20 Nov 15:00", "20 Nov 21:00", "21 Nov 03:00", "21 Nov 09:00"],
        ),
        (
            0,
            2 * DAY_MS,
            ["20 Nov 00:00", "20 Nov 12:00", "21 Nov 00:00", "21 Nov 12:00", "22 Nov 00:00"],
        ),
        (0, 4 * DAY_MS, ["20 Nov", "21 Nov", "22 Nov", "23 Nov", "24 Nov"]),
    ],
)
def test_times_are_told_apart_however_long_the_window_is(
    since_ms: int, length_ms: int, expected: list[str]
) -> None:
    begin_ms = SINCE_MS + since_ms
    assert [one.text for one in times_of(begin_ms, begin_ms + length_ms)] == expected


@given(st.integers(0, 10 * DAY_MS), st.integers(4, 300 * DAY_MS))
def test_no_two_times_are_the_same(since_ms: int, length_ms: int) -> None:
    begin_ms = SINCE_MS + since_ms
    assert len({one.text for one in times_of(begin_ms, begin_ms + length_ms)}) == 5


def test_a_column_of_less_than_a_minute_is_named_by_its_seconds() -> None:
    found = columns_of(summary(hours=(Hour(1, 0, {}),), until_ms=SINCE_MS + 30_000))
    assert [one.title for one in found] == ["20 Nov 00:00:00 to 00:00:30"]


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (512, "0.51 ms"),
        (1_024, "1 ms"),
        (131_072, "130 ms"),
        (999_000, "1000 ms"),
        (2**20, "1 s"),
        (90_000_000, "1.5 min"),
        (7_200_000_000, "2 h"),
        (604_800_000_000, "7 d"),
        (0, "0 ms"),
    ],
)
def test_a_time_is_written_in_its_best_unit(us: float, expected: str) -> None:
    assert took(us) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0, "0"), (999, "999"), (1_500, "1.5k"), (2_500_000, "2.5M")]
)
def test_a_scale_needs_few_characters(value: int, expected: str) -> None:
    assert short(value) == expected
