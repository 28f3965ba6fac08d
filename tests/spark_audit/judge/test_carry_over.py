"""What one run leaves open, the next looks at again, and only that."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import spark_audit.judge.carry_over
from spark_audit.judge.carry_over import CarryOver, carried, carry_over, gone
from spark_audit.judge.judge import judge
from tests.spark_audit.judge.day import (
    ALLOWED,
    DEAD_WORKER,
    FIRST_OFFSET,
    FROZEN,
    GRACE,
    HOUR,
    MINUTE,
    NOON,
    RETRY_TOPIC,
    SINCE,
    TOPIC,
    UNTIL,
    Day,
)


@dataclass(frozen=True)
class Judged:
    """A day that is judged once; each test looks at requests of its own."""

    day: Day
    requests: DataFrame

    def open_of(self, *ids: str) -> CarryOver:
        """Return what these of its requests leave open."""
        return carry_over(self.rows_of(*ids), self.day.manifest)

    def rows_of(self, *ids: str) -> list[Row]:
        """Return these of its requests that are to be looked at again."""
        return carried(self.requests.where(F.col("request_id").isin(*ids))).collect()


def _day() -> Day:
    day = Day(carried=("gone", "there"))
    day.journal(day.send("done"))
    day.send("lost")
    # Before all that is read again: no offset of it is needed.
    day.journal(day.send("claimed", NOON + 1), "CLAIMED", owner=DEAD_WORKER)
    day.send("in-flight", NOON + 2, deadline_at=FROZEN)
    day.send("in-flight-later", NOON + 2, deadline_at=FROZEN)
    day.journal(day.send("retrying", NOON), "RETRYING")
    for number in range(3):
        day.send(f"pending-{number}", NOON + 3 + number, is_committed=False)
    day.journal(day.send("not-buried"), "FAILED", finished_at=FROZEN - GRACE - 1)
    day.journal(day.send("may-be-buried"), "FAILED", finished_at=FROZEN - GRACE)
    buried = day.send("buried")
    day.journal(buried, "FAILED", finished_at=FROZEN)
    day.bury(buried)
    failed = day.send("asked-again", deadline_at=FROZEN)
    day.journal(failed, "FAILED", resend=True)
    day.send("asked-again", NOON + MINUTE, attempt=2, reopens=1, deadline_at=FROZEN)
    day.send("there", SINCE - HOUR)
    day.send("lost-at-last", FROZEN - HOUR)
    return day


@pytest.fixture(scope="module")
def judged(spark: SparkSession) -> Judged:
    """Return the day; its requests are rows that cost no further judgement."""
    day = _day()
    found = judge(spark, *day.frames(spark), day.manifest, ALLOWED)
    return Judged(day, spark.createDataFrame(found.collect(), found.schema))


def test_what_is_open_is_carried_over_the_oldest_first(judged: Judged) -> None:
    every = ("done", "lost", "in-flight", "claimed", "retrying", "pending-0")
    assert judged.open_of(*every).ids == ("retrying", "claimed", "in-flight", "pending-0")


def test_a_failure_whose_dead_letter_may_still_come_is_carried_over_by_its_row(
    judged: Judged,
) -> None:
    found = judged.open_of("not-buried", "may-be-buried", "buried")
    assert (found.ids, found.read_from) == (("may-be-buried",), {})


def test_a_failure_that_was_sent_again_is_carried_over_by_its_records(judged: Judged) -> None:
    found = judged.open_of("asked-again")
    first = min(one["offset"] for one in judged.day.records if one["request_id"] == "asked-again")
    assert (found.ids, found.read_from) == (("asked-again",), {(TOPIC, 0): first})


def test_what_was_carried_and_is_nowhere_any_more_is_counted(judged: Judged) -> None:
    assert gone(judged.requests, judged.day.manifest) == 1


def test_records_are_read_again_from_the_first_that_is_needed(judged: Judged) -> None:
    found = judged.open_of("claimed", "in-flight", "in-flight-later")
    # A claim is found by its id: an old one does not make later runs read all the days since.
    assert found.read_from == {(TOPIC, 0): _offset(judged, "in-flight")}


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


def test_a_group_that_has_committed_nothing_is_carried_by_its_records(judged: Judged) -> None:
    limits = judged.day.manifest
    partitions = tuple(replace(one, committed=None) for one in limits.partitions)
    found = carry_over(
        judged.rows_of("pending-0", "pending-1"), replace(limits, partitions=partitions)
    )
    assert found.read_from == {(TOPIC, 0): _offset(judged, "pending-0")}


def test_more_than_can_be_carried_is_said(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_audit.judge.carry_over, "LIMIT", 2)
    three = ("pending-0", "pending-1", "pending-2")
    read_from = {(TOPIC, 0): _offset(judged, "pending-0")}
    assert judged.open_of(*three[:2]) == CarryOver(three[:2], read_from, is_cut=False)
    assert judged.open_of(*three) == CarryOver(three[:2], read_from, is_cut=True)


def test_what_was_carried_is_judged_by_the_next_run(spark: SparkSession, judged: Judged) -> None:
    yesterday = judged.open_of("lost-at-last")
    assert yesterday.ids == ("lost-at-last",)
    day = Day()
    day.send("lost-at-last", FROZEN - HOUR)["in_window"] = False
    tomorrow = replace(
        day.manifest,
        since_ms=UNTIL,
        until_ms=UNTIL + 24 * HOUR,
        frozen_at_ms=FROZEN + 24 * HOUR,
        carried=yesterday.ids,
    )
    (row,) = judge(spark, *day.frames(spark), tomorrow, ALLOWED).collect()
    assert row["request_id"] == "lost-at-last"
    assert row["lost"]


def _offset(judged: Judged, request_id: str) -> int:
    (record,) = (one for one in judged.day.records if one["request_id"] == request_id)
    offset: int = record["offset"]
    return offset
