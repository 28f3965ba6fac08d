"""Requests that name no deadline have that of their handler, which only rows tell of."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_audit.judge.allowed_times import allowed_times, topics_in_question
from spark_audit.judge.judge import judge
from tests.spark_audit.judge.day import (
    DEADLINE,
    FROZEN,
    GRACE,
    HOUR,
    MINUTE,
    NOON,
    PRUNED_TOPIC,
    TOPIC,
    UNTIL,
    Day,
    Facts,
)

ALLOWED_MS = 9 * HOUR


def _ran(
    day: Day, request_id: str, allowed_ms: int, state: str = "SUCCEEDED", **facts: int
) -> None:
    """Let a worker have run a request that named no deadline."""
    record = day.send(request_id)
    day.journal(record, state, deadline_at=NOON + allowed_ms, **facts)


def _judged(spark: SparkSession, day: Day) -> dict[str, Facts]:
    records, requests, runs = day.frames(spark)
    allowed = allowed_times(records, requests, topics_in_question(records, requests, ()))
    rows = judge(spark, records, requests, runs, day.manifest, allowed).collect()
    return {row["request_id"]: row.asDict() for row in rows}


def test_the_longest_time_that_a_row_shows_counts_and_no_other_row_says_anything(
    spark: SparkSession,
) -> None:
    day = Day()
    _ran(day, "shorter", HOUR)
    _ran(day, "longer", ALLOWED_MS)
    _ran(day, "of-a-run-after-a-failure", 20 * HOUR, generation=2)
    # A redrive gave them a new deadline.
    _ran(day, "reopened", 20 * HOUR, "FAILED", resend=True)
    _ran(day, "reopened-in-vain", 20 * HOUR, "FAILED")
    day.journal(day.send("named", deadline_at=NOON + 20 * HOUR))
    day.journal(day.send("timeless", at=-1, in_window=True), deadline_at=FROZEN)
    # The place of a row in a topic that was made anew is another record's.
    other = day.send("another")
    day.journal(other | {"request_id": "one-of-the-old-topic"}, deadline_at=NOON + 20 * HOUR)
    day.send("of-a-topic-without-rows", topic=PRUNED_TOPIC)
    records, requests, _ = day.frames(spark)
    found = allowed_times(records, requests, [TOPIC, PRUNED_TOPIC])
    assert found == {TOPIC: ALLOWED_MS}
    assert allowed_times(records, requests, []) == {}


def test_only_topics_where_a_request_without_a_row_names_no_deadline_are_in_question(
    spark: SparkSession,
) -> None:
    day = Day()
    _ran(day, "ran", HOUR)
    day.send("lost-after-its-deadline", deadline_at=NOON)
    records, requests, _ = day.frames(spark)
    assert topics_in_question(records, requests, ()) == []
    # A later day's is a question of that day, unless it was carried.
    day.send("of-tomorrow", UNTIL)
    records, requests, _ = day.frames(spark)
    assert topics_in_question(records, requests, ()) == []
    assert topics_in_question(records, requests, ["of-tomorrow"]) == [TOPIC]
    day.send("lost", topic=PRUNED_TOPIC)
    records, requests, _ = day.frames(spark)
    assert topics_in_question(records, requests, ()) == [PRUNED_TOPIC]


def test_a_request_is_lost_when_the_time_of_its_handler_is_over(spark: SparkSession) -> None:
    day = Day()
    _ran(day, "ran", ALLOWED_MS)
    day.send("may-run", FROZEN - GRACE - ALLOWED_MS + 1)
    day.send("lost", FROZEN - GRACE - ALLOWED_MS)
    day.send("not-delivered", FROZEN - GRACE - ALLOWED_MS + 1, is_committed=False)
    judged = _judged(spark, day)
    assert {one: row["lost"] for one, row in judged.items()} == {
        "ran": False,
        "may-run": False,
        "lost": True,
        "not-delivered": False,
    }
    assert judged["may-run"]["is_in_flight"]
    assert not judged["not-delivered"]["overdue"]
    assert judged["lost"]["can_resend"]


def test_a_handler_with_less_time_than_the_settings_makes_no_loss_sooner(
    spark: SparkSession,
) -> None:
    day = Day()
    _ran(day, "ran", MINUTE)
    day.send("may-run", FROZEN - GRACE - DEADLINE + 1)
    assert not _judged(spark, day)["may-run"]["lost"]


def test_a_request_of_which_nobody_knows_whether_its_time_is_over_is_not_offered(
    spark: SparkSession,
) -> None:
    day = Day()
    day.send("lost")
    day.send("lost-after-its-deadline", deadline_at=NOON)
    # Its resend names a deadline, it does not.
    day.send("sent-again")
    day.send("sent-again", UNTIL + MINUTE, attempt=2, deadline_at=NOON)
    judged = _judged(spark, day)
    assert {one: (row["lost"], row["can_resend"]) for one, row in judged.items()} == {
        "lost": (True, False),
        "lost-after-its-deadline": (True, True),
        "sent-again": (True, False),
    }
