"""The window: a UTC day, or what --since and --until make of it."""

import pytest

from feedback.errors import ExitCode, NotAvailable, SettingsError
from spark_audit.stage.window import Window, window_of

NOON = 1_772_366_400_000  # 2026-03-01T12:00:00Z
DAY_MS = 86_400_000


def test_a_date_is_one_day_in_utc() -> None:
    begin = NOON - DAY_MS // 2 - DAY_MS
    assert window_of("2026-02-28", now_ms=NOON) == Window("2026-02-28", begin, begin + DAY_MS)


def test_a_day_that_is_not_over_is_judged_as_far_as_it_goes() -> None:
    assert window_of("2026-03-01", now_ms=NOON).until_ms == NOON + DAY_MS // 2


def test_times_with_a_zone_stand_in_for_the_ends_of_the_day() -> None:
    window = window_of(
        "2026-03-01", "2026-03-01T09:00:00+01:00", "2026-03-01T11:30:00.250Z", now_ms=NOON
    )
    assert (window.since_ms, window.until_ms) == (NOON - 4 * 3_600_000, NOON - 1_800_000 + 250)


def test_every_millisecond_is_kept_whole() -> None:
    for second in range(60):
        text = f"2026-03-01T00:00:{second:02}.{second * 16 + 7:03}Z"
        expected = NOON - DAY_MS // 2 + second * 1000 + second * 16 + 7
        assert window_of("2026-03-01", text, now_ms=NOON).since_ms == expected


@pytest.mark.parametrize(
    "date", ["", "yesterday", "2026-2-1", "20260201", "2026-W05-1", "2026-02-30", "2026-02-01\n"]
)
def test_what_is_no_date_is_a_mistake_in_usage(date: str) -> None:
    with pytest.raises(SettingsError, match="YYYY-MM-DD"):
        window_of(date, now_ms=NOON)


@pytest.mark.parametrize("text", ["", "9 o'clock", "2026-03-01T09:00:00", "2026-03-01"])
def test_a_time_without_a_zone_is_a_mistake_in_usage(text: str) -> None:
    with pytest.raises(SettingsError, match="--since"):
        window_of("2026-03-01", text, now_ms=NOON)
    with pytest.raises(SettingsError, match="--until"):
        window_of("2026-03-01", until=text, now_ms=NOON)


@pytest.mark.parametrize("date", ["2026-03-02", "9999-12-31"])
def test_a_date_in_the_future_ends_with_3(date: str) -> None:
    with pytest.raises(NotAvailable, match="future") as raised:
        window_of(date, now_ms=NOON)
    assert raised.value.exit_code is ExitCode.NOT_AVAILABLE


def test_a_begin_in_the_future_ends_with_3_as_well() -> None:
    with pytest.raises(NotAvailable, match="future"):
        window_of("2026-03-01", "2026-03-01T12:00:00.001Z", now_ms=NOON)


def test_an_empty_window_is_a_mistake_in_usage() -> None:
    same = "2026-03-01T10:00:00Z"
    with pytest.raises(SettingsError, match="before"):
        window_of("2026-03-01", same, same, now_ms=NOON)


def test_a_time_before_1970_is_refused_since_kafka_reads_it_as_a_word_of_its_own() -> None:
    with pytest.raises(SettingsError, match="1970"):
        window_of("1969-12-31", now_ms=NOON)
    assert window_of("1970-01-01", now_ms=NOON).since_ms == 0
