"""What one run leaves open, the next looks at again, and only that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

import spark_audit.judge.carry_over
from spark_audit.judge.carry_over import CarryOver, carried, carry_over, gone
from spark_audit.judge.judge import judge
from tests.spark_audit.judge.day import (
    DEAD_WORKER,
    FIRST_OFFSET,
    FROZEN,
    GRACE,
    HOUR,
    NOON,
    RETRY_TOPIC,
    SINCE,
    TOPIC,
    UNTIL,
    Day,
)


def carried_of(spark: SparkSession, day: Day) -> CarryOver:
    judged = judge(spark, *day.frames(spark), day.manifest)
    return carry_over(carried(judged).collect(), day.manifest)


def test_what_is_open_is_carried_over_the_oldest_first(spark: SparkSession) -> None:
    day = Day()
    day.journal(day.send("done"))
    day.send("lost")
    day.send("in-flight", NOON + 2, deadline_at=FROZEN)
    day.journal(day.send("claimed", NOON + 1), "CLAIMED", owner=DEAD_WORKER)
    day.journal(day.send("retrying", NOON), "RETRYING")
    day.send("pending", NOON + 3, is_committed=False)
    assert carried_of(spark, day).ids == ("retrying", "claimed", "in-flight", "pending")


def test_a_failure_whose_dead_letter_may_still_come_is_carried_over_by_its_row(
    spark: SparkSession,
) -> None:
    day = Day()
    day.journal(day.send("not-buried"), "FAILED", finished_at=FROZEN - GRACE - 1)
    day.journal(day.send("may-be-buried"), "FAILED", finished_at=FROZEN - GRACE)
    buried = day.send("buried")
    day.journal(buried, "FAILED", finished_at=FROZEN)
    day.bury(buried)
    found = carried_of(spark, day)
    assert (found.ids, found.read_from) == (("may-be-buried",), {})


def test_what_was_carried_and_is_nowhere_any_more_is_counted(spark: SparkSession) -> None:
    day = Day(carried=("gone", "there"))
    day.send("there", SINCE - HOUR)
    judged = judge(spark, *day.frames(spark), day.manifest)
    assert gone(judged, day.manifest) == 1


def test_records_are_read_again_from_the_first_that_is_needed(spark: SparkSession) -> None:
    day = Day()
    day.journal(day.send("claimed"), "CLAIMED")
    day.send("in-flight", deadline_at=FROZEN)
    day.send("in-flight-later", deadline_at=FROZEN)
    found = carried_of(spark, day)
    # A claim is found by its id: an old one does not make later runs read all the days since.
    assert found.read_from == {(TOPIC, 0): FIRST_OFFSET + 1}


def test_what_is_not_delivered_is_read_again_on_each_partition() -> None:
    day = Day()
    for number in range(5):
        day.send(f"a{number}")
        day.send_retry(f"b{number}")
        day.bury(day.records[0])
    delivered_two = [
        replace(one, committed=FIRST_OFFSET + 2) if one.end > FIRST_OFFSET else one
        for one in day.manifest.partitions
    ]
    found = carry_over([], replace(day.manifest, partitions=tuple(delivered_two)))
    assert found.read_from == {
        (TOPIC, 0): FIRST_OFFSET + 2,
        (RETRY_TOPIC, 0): FIRST_OFFSET + 2,
    }


def test_retries_that_nobody_has_ever_read_are_read_again_from_their_begin() -> None:
    day = Day()
    day.send_retry("waits")
    partitions = tuple(replace(one, committed=None) for one in day.manifest.partitions)
    found = carry_over([], replace(day.manifest, partitions=partitions))
    assert found.read_from == {(RETRY_TOPIC, 0): FIRST_OFFSET}


def test_a_group_that_has_committed_nothing_is_carried_by_its_records(spark: SparkSession) -> None:
    day = Day()
    day.send("pending", is_committed=False)
    day.send("pending-too", is_committed=False)
    judged = judge(spark, *day.frames(spark), day.manifest)
    partitions = tuple(replace(one, committed=None) for one in day.manifest.partitions)
    found = carry_over(carried(judged).collect(), replace(day.manifest, partitions=partitions))
    assert found.read_from == {(TOPIC, 0): FIRST_OFFSET}


def test_more_than_can_be_carried_is_said(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_audit.judge.carry_over, "LIMIT", 2)
    day = Day()
    for number in range(2):
        day.send(f"r{number}", NOON + number, is_committed=False)
    assert carried_of(spark, day) == CarryOver(
        ("r0", "r1"), {(TOPIC, 0): FIRST_OFFSET}, is_cut=False
    )
    day.send("r2", NOON + 2, is_committed=False)
    assert carried_of(spark, day) == CarryOver(
        ("r0", "r1"), {(TOPIC, 0): FIRST_OFFSET}, is_cut=True
    )


def test_what_was_carried_is_judged_by_the_next_run(spark: SparkSession) -> None:
    day = Day()
    day.send("lost-at-last", FROZEN - HOUR)
    yesterday = carried_of(spark, day)
    assert yesterday.ids == ("lost-at-last",)
    tomorrow = replace(
        day.manifest,
        since_ms=UNTIL,
        until_ms=UNTIL + 24 * HOUR,
        frozen_at_ms=FROZEN + 24 * HOUR,
        carried=yesterday.ids,
    )
    for record in day.records:
        record["in_window"] = False
    (row,) = judge(spark, *day.frames(spark), tomorrow).collect()
    assert row["request_id"] == "lost-at-last"
    assert row["lost"]
