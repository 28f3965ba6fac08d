"""The days of an output folder: none of them drops out of the chain unsaid."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from feedback.errors import NotAvailable
from spark_audit.stage.days import days_of, left_open, since_last_reading, unjudged
from spark_audit.stage.manifest import VERSION, Manifest
from spark_audit.stage.snapshot import Snapshot
from tests.spark_audit.stage.samples import manifest

DATES = ("2026-11-17", "2026-11-18", "2026-11-19")
SECOND = DATES[1]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Return a folder of three days that were read."""
    for number, date in enumerate(DATES, start=1):
        snapshot = Snapshot.of(tmp_path, date)
        for folder in snapshot.parts:
            folder.mkdir(parents=True)
        replace(manifest(), date=date, number=number).write(snapshot.manifest)
        snapshot.complete()
    return tmp_path


def _change(output: Path, **changes: Any) -> Path:
    path = Snapshot.of(output, SECOND).manifest
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return path


def _dates(output: Path, again: str | None = None) -> list[str]:
    return [one.date for one in days_of(output, again=again)]


@pytest.mark.parametrize("text", ["", '{"version": 6, "date": "2026-1', "[]", "null", "{}", "\0"])
def test_a_damaged_manifest_ends_the_run_and_names_what_mends_it(output: Path, text: str) -> None:
    path = Snapshot.of(output, SECOND).manifest
    path.write_text(text)
    with pytest.raises(NotAvailable) as raised:
        days_of(output)
    assert str(raised.value) == (
        f"{path} is damaged, and later days go on where {SECOND} ended: read that day again: "
        f"onceward-audit run --date {SECOND} --again"
    )
    assert _dates(output, again=SECOND) == [DATES[0], DATES[2]]


def test_a_manifest_whose_fields_are_not_those_of_its_version_is_damaged(output: Path) -> None:
    _change(output, partitions=[{"kind": "request"}])
    with pytest.raises(NotAvailable, match="is damaged"):
        days_of(output)


def test_bytes_that_are_no_text_are_damage(output: Path) -> None:
    Snapshot.of(output, SECOND).manifest.write_bytes(b"\xff\xfe")
    with pytest.raises(NotAvailable, match="is damaged"):
        days_of(output)


def test_a_day_of_an_older_version_is_left_out_and_its_version_said(
    output: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _change(output, version=VERSION - 1)
    with caplog.at_level(logging.WARNING):
        assert _dates(output) == [DATES[0], DATES[2]]
    assert f"{path} is of version {VERSION - 1}, and this audit reads {VERSION}" in caplog.text


def test_a_day_of_a_newer_version_ends_the_run(output: Path) -> None:
    path = _change(output, version=VERSION + 1)
    with pytest.raises(NotAvailable) as raised:
        days_of(output)
    assert str(raised.value) == (
        f"{path} is of version {VERSION + 1}, and this audit reads {VERSION}: run the audit of "
        "that version"
    )


def test_a_manifest_that_is_missing_is_damage(output: Path) -> None:
    Snapshot.of(output, SECOND).manifest.unlink()
    with pytest.raises(NotAvailable, match="is damaged"):
        days_of(output)


def test_a_day_that_lost_a_part_stays_in_the_chain_and_is_judged_by_no_run_unsaid(
    output: Path,
) -> None:
    Snapshot.of(output, SECOND).records.rmdir()
    days = days_of(output)
    assert [one.date for one in days] == list(DATES)
    assert [one.date for one in unjudged(output, days, DATES[2])] == list(DATES[:2])


def test_a_day_that_was_never_read_to_its_end_is_none(output: Path) -> None:
    (Snapshot.of(output, SECOND).folder / "_COMPLETE").unlink()
    assert _dates(output) == [DATES[0], DATES[2]]


def _day(date: str, number: int, read_at_ms: int = 0) -> Manifest:
    return replace(manifest(), date=date, number=number, journal_read_at_ms=read_at_ms)


def _goes_on_with(output: Path, date: str, *days: Manifest) -> list[str]:
    for day in days:
        (output / "reports" / f"date={day.date}").mkdir(parents=True, exist_ok=True)
    return [one.date for one in left_open(output, days, date)]


def test_a_run_goes_on_with_what_the_day_before_left_open(tmp_path: Path) -> None:
    first, second, third = (_day(date, number) for number, date in enumerate(DATES, start=1))
    assert _goes_on_with(tmp_path, DATES[0]) == []
    assert _goes_on_with(tmp_path, SECOND, first) == [DATES[0]]
    assert _goes_on_with(tmp_path, DATES[2], first, second) == [SECOND]
    # The same when it is read again, also where the next day has gone on from there.
    assert _goes_on_with(tmp_path, DATES[2], first, second, third) == [SECOND]
    assert _goes_on_with(tmp_path, SECOND, first, second, third) == [DATES[0]]


def test_what_a_day_leaves_open_that_is_made_late_is_gone_on_with_once(tmp_path: Path) -> None:
    first, third, late = _day(DATES[0], 1), _day(DATES[2], 2), _day(SECOND, 3)
    # The third has what the first left open: it is not that of the second as well.
    assert _goes_on_with(tmp_path, SECOND, first, third) == []
    assert _goes_on_with(tmp_path, "2026-11-20", first, third, late) == [DATES[2], SECOND]
    fourth = _day("2026-11-20", 4)
    assert _goes_on_with(tmp_path, "2026-11-21", first, third, late, fourth) == ["2026-11-20"]


def _span(date: str, *days: Manifest) -> tuple[int, int]:
    found = since_last_reading(_day(date, 9), days)
    return found.reran_since_ms, found.reran_until_ms


def test_each_run_looks_for_what_ran_again_since_the_last_reading(tmp_path: Path) -> None:
    first = _day(DATES[0], 1, 100)
    second = replace(_day(SECOND, 2, 200), reran_since_ms=100)
    third = replace(_day(DATES[2], 3, 300), reran_since_ms=200)
    assert _span(DATES[0]) == (0, 0)
    assert _span(SECOND, first) == (100, 0)
    assert _span(DATES[2], first, third) == (100, 0)
    # The last one read again goes on to its new reading; one before that keeps its time.
    assert _span(SECOND, first, second) == (100, 0)
    assert _span(SECOND, first, second, third) == (100, 200)
    again = replace(second, journal_read_at_ms=900, reran_until_ms=200)
    assert _span(DATES[2], first, again, third) == (200, 0)
    assert _span("2026-11-20", first, again, third) == (300, 0)
