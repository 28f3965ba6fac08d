"""The days of an output folder: none of them drops out of the chain unsaid."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from feedback.errors import NotAvailable
from spark_audit.days import days_of, unjudged
from spark_audit.manifest import VERSION
from spark_audit.snapshot import Snapshot
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
