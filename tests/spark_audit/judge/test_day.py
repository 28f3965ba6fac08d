"""A day with one of everything is judged as it was planted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.judge.judge import judge
from tests.spark_audit.judge.day import (
    ALLOWED,
    BEHIND,
    FIRST_OFFSET,
    FROZEN,
    HOUR,
    LIVING_WORKER,
    MINUTE,
    NOON,
    OTHER_PAYLOAD,
    PAYLOAD,
    SECOND,
    SINCE,
    TOPIC,
    Day,
    Facts,
    missing,
    without_dlq,
)
from tests.spark_audit.judge.planted import HOSTILE, plant
from tests.spark_audit.judge.planting import Planted
from tests.spark_audit.small import compiled

Judged = dict[str, Facts]


@pytest.fixture(scope="module")
def planted() -> Planted:
    return plant()


@pytest.fixture(scope="module")
def judged(spark: SparkSession, planted: Planted) -> Judged:
    with compiled(spark):
        return planted.day.judged(spark)


def findings_of(row: Facts) -> set[Finding]:
    return {finding for finding in REQUEST_FINDINGS if row[finding]}


def named(judged: Judged, column: str) -> set[str]:
    return {request_id for request_id, row in judged.items() if row[column]}


def test_exactly_what_was_planted_is_found(judged: Judged, planted: Planted) -> None:
    assert {one: findings_of(row) for one, row in judged.items()} == planted.findings


def test_each_kind_of_finding_was_planted(planted: Planted) -> None:
    assert set.union(*planted.findings.values()) == set(REQUEST_FINDINGS)


def test_no_flag_is_ever_unknown(judged: Judged) -> None:
    flags = (*REQUEST_FINDINGS, "is_pending", "is_in_flight", "awaits_reopening", "can_resend")
    assert {row[flag] for row in judged.values() for flag in flags} == {True, False}


def test_what_has_still_to_be_delivered_is_pending(judged: Judged) -> None:
    assert named(judged, "is_pending") == {
        "pending",
        "pending-in-time",
        "never-delivered",
        "never-delivered-without-a-deadline",
        "resend-pending",
        "reopens",
        "never-reopened",
    }


def test_what_has_time_left_is_in_flight(judged: Judged) -> None:
    assert named(judged, "is_in_flight") == {
        "in-flight",
        "in-flight-without-a-deadline",
        "in-flight-by-a-clock-ahead",
        "running",
        "runs-again-now",
        "owner-just-lapsed",
        "waits-for-its-next-run",
    }


def test_a_failure_that_was_asked_for_again_waits_for_its_time(judged: Judged) -> None:
    assert named(judged, "awaits_reopening") == {"asked-again-in-time"}


def test_a_failure_of_the_hour_behind_midnight_needs_its_letter(spark: SparkSession) -> None:
    day = Day()
    day.journal(day.send("left", **BEHIND), "FAILED", dead_letter_at=SINCE + MINUTE)
    # The run of the day before was made after that hour.
    manifest = replace(day.manifest, before_ms=SINCE + HOUR)
    (row,) = judge(spark, *day.frames(spark), manifest, ALLOWED).collect()
    assert row["failed_without_dead_letter"]


def test_only_what_nobody_has_begun_may_be_resent(judged: Judged) -> None:
    lost = {one for one in named(judged, "lost") if not judged[one]["malformed"]}
    begun = {f"{how}-unknown" for how in ("buried", "ended", "retried", "waited")}
    begun_or_two = begun | {"row-deleted", "two-payloads-lost"}
    assert named(judged, "can_resend") == (lost - begun_or_two) | {
        "in-flight",
        "in-flight-without-a-deadline",
        "in-flight-by-a-clock-ahead",
    }


def test_a_request_is_told_with_its_first_record_and_its_row(
    judged: Judged, planted: Planted
) -> None:
    first = next(one for one in planted.day.records if one["request_id"] == "resent")
    assert first["offset"] > FIRST_OFFSET > 2**31
    row = judged["resent"]
    assert {name: row[name] for name in row if name not in REQUEST_FINDINGS} == {
        "request_id": "resent",
        "topic": TOPIC,
        "partition": 0,
        "offset": first["offset"],
        "first_at": NOON,
        "state": "SUCCEEDED",
        "code": None,
        "generation": 1,
        "attempt": 3,
        "records": 3,
        "runs": 1,
        "effect_runs": 1,
        "owner": LIVING_WORKER,
        "claimed_at": NOON + 61 * SECOND,
        "finished_at": NOON + 62 * SECOND,
        "deadline_at": NOON + 60 * SECOND + 3_600_000,
        "latency_ms": 62 * SECOND,
        "dead_letters": 0,
        "reason": None,
        "payload_sha256": PAYLOAD,
        "is_pending": False,
        "is_in_flight": False,
        "awaits_letter": False,
        "awaits_reopening": False,
        "can_resend": False,
        "resend_needed": True,
    }


def test_a_resend_was_needed_where_the_row_is_of_a_later_attempt(judged: Judged) -> None:
    needed = {one: row["resend_needed"] for one, row in judged.items() if row["resent"]}
    assert needed == {
        "over-midnight": True,
        "answered-tomorrow": True,
        "resent": True,
        "resent-and-answered": False,
        "done-but-resent": False,
        "reopens": False,
        "never-reopened": False,
        **{one: one.endswith("-failed") for one in judged if one.startswith("asked-again")},
        "taken": False,
        # Nothing is known where the journal has no row.
        "resent-in-vain": None,
        "resent-before-pruning": None,
        "two-payloads-lost": None,
        "resend-pending": None,
    }
    others = [row for row in judged.values() if not row["resent"]]
    assert [row["request_id"] for row in others if row["resend_needed"] is not None] == []


def test_runs_are_counted_with_the_history_and_effects_apart(judged: Judged) -> None:
    counts = {one: (row["runs"], row["effect_runs"]) for one, row in judged.items()}
    assert counts["ran-again-after-success"] == (2, 2)
    assert counts["resolved-then-reopened"] == (3, 1)
    assert counts["many-times-reopened"] == (140, 1)
    assert counts["expired"] == (0, 0)
    assert counts["row-deleted"] == (1, 1)
    assert counts["lost"] == (0, 0)


def test_a_request_without_a_record_is_told_by_its_row(judged: Judged, planted: Planted) -> None:
    written = next(one for one in planted.day.requests if one["request_id"] == "orphan")
    row = judged["orphan"]
    assert (row["offset"], row["first_at"]) == (written["offset"], written["claimed_at"])
    assert row["latency_ms"] is None


def test_a_row_whose_record_a_compacted_topic_may_have_forgotten_is_no_orphan(
    spark: SparkSession,
) -> None:
    day = Day()
    day.journal(missing(day, "forgotten"))
    day.journal(missing(day, "orphan") | {"topic": "gone"})
    manifest = replace(day.manifest, compacted=(TOPIC,))
    rows = judge(spark, *day.frames(spark), manifest, ALLOWED).collect()
    assert {row["request_id"]: row["orphan"] for row in rows} == {
        "forgotten": False,
        "orphan": True,
    }


def test_the_last_dead_letter_gives_the_reason_and_a_clock_ahead_took_no_time_rather_than_less(
    spark: SparkSession,
) -> None:
    day = Day()
    record = day.send("buried")
    day.journal(record, "FAILED")
    day.bury(record, NOON + 2, reason="LATER")
    day.bury(record, NOON + 1, reason="EARLIER")
    day.journal(day.send("ahead", NOON), claimed_at=NOON - 2, finished_at=NOON - 1)
    rows = day.judged(spark)
    assert (rows["buried"]["dead_letters"], rows["buried"]["reason"]) == (2, "LATER")
    assert rows["ahead"]["latency_ms"] == 0


def test_a_group_without_dead_letters_is_not_accused_of_having_none(
    spark: SparkSession, planted: Planted
) -> None:
    day = without_dlq(planted.day)
    assert named(day.judged(spark), Finding.FAILED_WITHOUT_DEAD_LETTER) == set()


def test_ids_come_back_as_they_were_sent(judged: Judged) -> None:
    assert set(HOSTILE) <= set(judged)


def test_the_same_day_gives_the_same_rows_in_any_order(
    spark: SparkSession, planted: Planted, judged: Judged
) -> None:
    day = planted.day
    backwards = Day(
        records=day.records[::-1],
        requests=day.requests[::-1],
        runs=day.runs[::-1],
        carried=day.carried[::-1],
        forgotten=day.forgotten[::-1],
        _next=day._next,
    )
    assert backwards.judged(spark) == judged


def test_an_empty_day_has_nothing_to_judge(spark: SparkSession) -> None:
    assert Day().judged(spark) == {}


def test_a_mismatch_is_told_with_the_same_hash_each_time(judged: Judged) -> None:
    assert judged["taken"]["payload_sha256"] == min(PAYLOAD, OTHER_PAYLOAD)


def test_a_record_without_a_time_counts_from_the_begin_of_the_window(judged: Judged) -> None:
    assert judged["timeless"]["first_at"] == SINCE < FROZEN
