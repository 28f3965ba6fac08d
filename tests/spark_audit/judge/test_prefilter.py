"""The sift takes nothing away that the rules would speak of, and counts what it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_audit.judge.allowed_times import allowed_times, topics_in_question
from spark_audit.judge.figures import figures_of
from spark_audit.judge.judge import judge
from spark_audit.judge.judged_day import JudgedDay, judge_day
from spark_audit.judge.prefilter import sift, to_judge
from spark_audit.output.paths import DayPaths
from spark_audit.stage.snapshot import Snapshot
from tests.spark_audit.judge.day import (
    DEADLINE,
    NOON,
    OTHER_PAYLOAD,
    SECOND,
    SINCE,
    UNTIL,
    Day,
    Facts,
)
from tests.spark_audit.judge.planted import plant
from tests.spark_audit.judge.test_histories import findings, random_day

Change = Callable[[Day, Facts, Facts], object]

PLAIN = [f"plain-{number}" for number in range(40)]


def _run_plainly(day: Day, request_id: str, at: int = NOON) -> tuple[Facts, Facts]:
    record = day.send(request_id, at)
    return record, day.journal(record)


def _add_plain(day: Day) -> Day:
    for number, name in enumerate(PLAIN):
        _run_plainly(day, name, SINCE + number * (UNTIL - SINCE) // len(PLAIN))
    return day


def _judged(spark: SparkSession, day: Day, folder: Path, *, samples: int = 0) -> JudgedDay:
    snapshot = Snapshot(folder / "snapshot")
    day.write(spark, snapshot.folder)
    places = DayPaths(folder, day.manifest.date)
    return judge_day(spark, snapshot, day.manifest, places, samples=samples)


def _by_id(frame: DataFrame) -> dict[str, Facts]:
    return {row["request_id"]: row.asDict() for row in frame.collect()}


def _set(**facts: Any) -> tuple[Change, Change]:
    """Return a change of the record, and the same of the row."""
    return (lambda _, record, __: record.update(facts), lambda _, __, row: row.update(facts))


def _as_row(**facts: Any) -> Change:
    return _set(**facts)[1]


def _as_record(**facts: Any) -> Change:
    return _set(**facts)[0]


ODD: dict[str, Change] = {
    "a record of a retry topic": _as_record(kind="retry"),
    "not delivered": _as_record(is_committed=False),
    "malformed": _as_record(is_malformed=True),
    "a resend": _as_record(attempt=2),
    "no timestamp": _as_record(timestamp_ms=-1),
    "a record without a row": lambda day, _, row: day.requests.remove(row),
    "a row without a record": lambda day, record, _: day.records.remove(record),
    "a second record": lambda day, record, _: day.send(record["request_id"]),
    "a dead letter": lambda day, record, _: day.bury(record),
    "a run before": lambda day, _, row: day.ran(row, "RETRYING"),
    "failed": _as_row(state="FAILED"),
    "in doubt": _as_row(state="IN_DOUBT"),
    "a row of a resend": _as_row(attempt=2),
    "a second generation": _as_row(generation=2),
    "a code": _as_row(code="RESULT_TOO_LARGE"),
    "no owner": _as_row(owner=None),
    "never claimed": _as_row(claimed_at=None),
    "no end": _as_row(finished_at=None),
    "no deadline": _as_row(deadline_at=None),
    "too late": _as_row(finished_at=NOON + DEADLINE + SECOND),
    "another offset": _as_row(offset=7),
    "another partition": _as_row(partition=1),
    "another topic": _as_row(topic="quiet"),
    "another payload": _as_row(payload_sha256=OTHER_PAYLOAD),
    "no payload hash": lambda _, record, row: (
        record.update(payload_sha256=None),
        row.update(payload_sha256=None),
    ),
}


def test_whatever_is_odd_of_a_request_has_it_judged(spark: SparkSession, tmp_path: Path) -> None:
    day = _add_plain(Day())
    for name, change in ODD.items():
        change(day, *_run_plainly(day, name))
    _run_plainly(day, "carried")
    day.carried = ("carried",)
    left = set(_by_id(_judged(spark, day, tmp_path).requests))
    assert left - set(PLAIN) == {*ODD, "carried"}
    # But for one or two, which are looked at as samples.
    assert len(left & set(PLAIN)) < len(PLAIN) / 4


@pytest.mark.parametrize(
    "day",
    [
        pytest.param(plant().day, id="planted", marks=pytest.mark.long),
        pytest.param(random_day(7, 1_500), id="random"),
    ],
)
def test_findings_and_figures_are_those_of_the_whole_day(
    spark: SparkSession, tmp_path: Path, day: Day
) -> None:
    day = _add_plain(day)
    # A record of another day, run as plainly, is counted nowhere.
    _run_plainly(day, "after", UNTIL)
    sifted = _judged(spark, day, tmp_path)
    records, requests, runs = day.frames(spark)
    topics = topics_in_question(records, requests, day.manifest.carried)
    allowed = allowed_times(records, requests, topics)
    whole = judge(spark, records, requests, runs, day.manifest, allowed)
    left, all_of = _by_id(sifted.requests), _by_id(whole)
    assert left == {request_id: all_of[request_id] for request_id in left}
    assert {one for one, found in findings(all_of).items() if found} <= set(left)
    assert sifted.plain.count() > 0
    figures = partial(figures_of, since_ms=SINCE, until_ms=UNTIL)
    assert figures(sifted.requests, plain=sifted.plain) == figures(whole)


def test_some_plain_requests_are_left_as_samples_the_same_each_time(spark: SparkSession) -> None:
    day = _add_plain(Day())

    def samples() -> set[str]:
        records, requests, runs = day.frames(spark)
        sifted = sift(spark, records, requests, runs, day.manifest, samples=3)
        return {row["request_id"] for row in to_judge(records, sifted).collect()}

    first = samples()
    assert samples() == first
    assert 3 <= len(first) < len(PLAIN)


def test_a_snapshot_that_was_taken_before_a_column_was_added_is_judged(
    spark: SparkSession, tmp_path: Path
) -> None:
    day = _add_plain(Day())
    failed = day.send("sent-again", deadline_at=NOON)
    day.journal(failed, "FAILED", resend=True)
    day.send("sent-again", NOON, attempt=2, deadline_at=NOON, reopens=1)
    day.write(spark, tmp_path / "new")
    records = spark.read.parquet(str(tmp_path / "new" / "records"))
    records.drop("reopens").write.parquet(str(tmp_path / "old" / "records"))
    for name in ("requests", "runs"):
        (tmp_path / "new" / name).rename(tmp_path / "old" / name)
    places = DayPaths(tmp_path, day.manifest.date)
    judged = judge_day(spark, Snapshot(tmp_path / "old"), day.manifest, places, samples=0)
    # What it does not say accuses nobody.
    assert [row["overdue"] for row in judged.requests.where("records > 1").collect()] == [False]


def test_a_small_day_is_judged_whole(spark: SparkSession, tmp_path: Path) -> None:
    sifted = _judged(spark, _add_plain(Day()), tmp_path, samples=1000)
    assert set(_by_id(sifted.requests)) == set(PLAIN)
    assert sifted.plain.count() == 0
