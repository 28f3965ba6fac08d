"""Yesterday, and the median of seven days."""

import json
from pathlib import Path
from typing import Any

import pytest

from feedback.logs import event_of
from spark_audit.findings import Finding
from spark_audit.output.paths import DayPaths
from spark_audit.say.history import (
    NAME,
    History,
    day_line,
    put_in,
    read_history,
    read_lines,
    take_out,
)
from spark_audit.say.summary import Summary, as_text
from tests.spark_audit.say.samples import DAY_MS, SINCE_MS, summary

TODAY = "2026-11-20"


def _keep(output: Path, found: Summary) -> Path:
    path = DayPaths(output, found["date"]).summary
    path.parent.mkdir(parents=True)
    path.write_text(as_text(found))
    return path


def _read(output: Path) -> History:
    return read_history(output, TODAY, length_ms=DAY_MS)


def _day(date: str, lost: int = 0, **more: Any) -> Summary:
    return summary({Finding.LOST: lost}, date=date, **more)


def test_the_first_day_has_no_history(tmp_path: Path) -> None:
    found = _read(tmp_path / "none")
    assert (found.yesterday, found.days, found.median_as_json()) == (None, (), None)


def test_yesterday_is_the_day_before_and_no_other(tmp_path: Path) -> None:
    _keep(tmp_path, _day("2026-11-18", lost=9))
    assert _read(tmp_path).yesterday is None
    _keep(tmp_path, _day("2026-11-19", lost=4, requests=70))
    yesterday = _read(tmp_path).yesterday
    assert yesterday is not None
    said = yesterday.as_json()
    assert (said["date"], said["verdict"], said["requests"]) == ("2026-11-19", "bad", 70)
    assert (said["findings"]["lost"], said["p50_ms"]) == (4, 202.0)


def test_the_median_is_of_the_seven_days_before(tmp_path: Path) -> None:
    for day, lost in ((12, 1_000), (13, 0), (15, 2), (17, 4), (19, 6), (20, 1_000), (21, 1_000)):
        _keep(tmp_path, _day(f"2026-11-{day}", lost=lost))
    found = _read(tmp_path).median_as_json()
    assert found is not None
    assert (found["days"], found["findings"]["lost"]) == (4, 3)


def test_thirty_days_are_recent_of_any_length_and_only_those(tmp_path: Path) -> None:
    for date in ("2026-10-20", "2026-10-21", "2026-11-19"):
        _keep(tmp_path, _day(date))
    _keep(tmp_path, _day("2026-11-01", until_ms=SINCE_MS + DAY_MS // 2))
    found = _read(tmp_path)
    assert [day.date for day in found.recent] == ["2026-11-19", "2026-11-01", "2026-10-21"]


def test_the_days_before_may_lie_in_another_year(tmp_path: Path) -> None:
    _keep(tmp_path, _day("2025-12-31", lost=1))
    found = read_history(tmp_path, "2026-01-01", length_ms=DAY_MS)
    assert found.yesterday is not None
    assert found.yesterday.numbers["lost"] == 1


def test_a_day_that_was_not_seen_whole_is_no_part_of_the_median(tmp_path: Path) -> None:
    _keep(tmp_path, _day("2026-11-19", lost=50, unseen=["Redis is away"]))
    _keep(tmp_path, _day("2026-11-18", lost=2))
    found = _read(tmp_path)
    assert found.yesterday is not None
    assert found.yesterday.verdict == "incomplete"
    median = found.median_as_json()
    assert median is not None
    assert (median["days"], median["findings"]["lost"]) == (1, 2)


def test_a_window_of_another_length_does_not_compare(tmp_path: Path) -> None:
    _keep(tmp_path, _day("2026-11-19", until_ms=SINCE_MS + DAY_MS // 2))
    assert _read(tmp_path).days == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"version": 1}',
        '{"version": 1, "until_ms": 86400000, "since_ms": 0, "counts": [], "latency": {}}',
        '{"version": 1, "until_ms": "soon", "since_ms": 0}',
        json.dumps(summary() | {"counts": {**summary()["counts"], "findings": []}}),
    ],
)
def test_what_is_no_summary_says_nothing(
    tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    _keep(tmp_path, _day("2026-11-18", lost=2))
    _keep(tmp_path, _day("2026-11-19")).write_text(text)
    found = _read(tmp_path)
    assert (found.yesterday, len(found.days)) == (None, 1)
    assert [event_of(one) for one in caplog.records] == ["audit.summary_unreadable"]


def test_a_summary_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    _keep(tmp_path, {**_day("2026-11-19"), "version": 2})
    assert _read(tmp_path).days == ()


def test_a_finding_that_an_older_summary_did_not_know_is_not_called_zero(tmp_path: Path) -> None:
    older = _day("2026-11-19")
    del older["counts"]["findings"]["late"]
    _keep(tmp_path, older)
    median = _read(tmp_path).median_as_json()
    assert median is not None
    assert (median["findings"]["late"], median["findings"]["lost"]) == (None, 0)


def test_a_summary_holds_its_history(tmp_path: Path) -> None:
    _keep(tmp_path, _day("2026-11-19", lost=1))
    said = json.loads(as_text(summary(history=_read(tmp_path))))
    assert said["yesterday"]["findings"]["lost"] == said["median_7d"]["findings"]["lost"] == 1


def test_a_day_of_the_table_is_not_looked_up_elsewhere(tmp_path: Path) -> None:
    for day in (18, 19):
        put_in(tmp_path, day_line(_day(f"2026-11-{day}", lost=day)))
    found = _read(tmp_path)
    assert [(one.date, one.numbers["lost"]) for one in found.days] == [
        ("2026-11-19", 19),
        ("2026-11-18", 18),
    ]
    assert [one.name for one in tmp_path.iterdir()] == [NAME]


def test_the_table_says_what_the_summaries_say(tmp_path: Path) -> None:
    every = [_day("2026-11-19", lost=3), _day("2026-11-18", unseen=["Redis is away"])]
    for one in every:
        _keep(tmp_path / "without", one)
        put_in(tmp_path, day_line(one))
    assert _read(tmp_path) == _read(tmp_path / "without")


def test_a_run_that_dies_while_it_replaces_a_report_leaves_no_line_that_differs(
    tmp_path: Path,
) -> None:
    put_in(tmp_path, day_line(_day("2026-11-19", lost=1)))
    take_out(tmp_path, "2026-11-19")
    # The new report is there, and its line is not.
    _keep(tmp_path, _day("2026-11-19", lost=2))
    assert [one.numbers["lost"] for one in _read(tmp_path).days] == [2]
    take_out(tmp_path, "2026-11-19")
    put_in(tmp_path, day_line(_day("2026-11-19", lost=2)))
    assert list(read_lines(tmp_path)) == ["2026-11-19"]


@pytest.mark.parametrize("text", ["{", "[]\n", "null\n", '{"table": 1}\n'])
def test_a_table_that_cannot_be_read_is_left_for_the_summaries(tmp_path: Path, text: str) -> None:
    _keep(tmp_path, _day("2026-11-19", lost=2))
    (tmp_path / NAME).write_text(text)
    assert [one.numbers["lost"] for one in _read(tmp_path).days] == [2]


def test_a_line_of_another_version_is_none(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(json.dumps({"table": 2, "date": "2026-11-19"}) + "\n")
    assert _read(tmp_path).days == ()
