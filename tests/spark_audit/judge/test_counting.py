"""Judged requests counted by Spark."""

import math
import random
from collections import Counter

from pyspark.sql import SparkSession

from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.judge.figures import TOP, Figures, WorkerShare, figures_of
from tests.spark_audit.say.samples import (
    DAY_MS,
    HOUR_MS,
    SINCE_MS,
    judged_frame,
    judged_request,
)


def _figures(spark: SparkSession, rows: list[dict[str, object]]) -> Figures:
    frame = judged_frame(spark, rows)
    return figures_of(frame, since_ms=SINCE_MS, until_ms=SINCE_MS + DAY_MS)


def test_spark_counts_what_plain_python_counts(spark: SparkSession) -> None:
    draw = random.Random(5)
    rows = [
        judged_request(
            f"r{number}",
            *draw.sample(list(Finding)[:11], draw.choice([0, 0, 0, 1, 3])),
            first_at=SINCE_MS + draw.randrange(DAY_MS),
            state=draw.choice(["SUCCEEDED", "FAILED", "IN_DOUBT", "EXPIRED", "CLAIMED", None]),
            code=draw.choice([None, "A", "B"]),
            owner=draw.choice([None, "w1", "w2"]),
            latency_ms=draw.choice([None, 1, 3, 250, 70_000]),
            is_pending=draw.random() < 0.1,
            resend_needed=draw.choice([None, True, False]),
        )
        for number in range(300)
    ]
    found = _figures(spark, rows)

    def is_error(row: dict[str, object]) -> bool:
        return row["state"] in ("FAILED", "IN_DOUBT", "EXPIRED") or row["lost"] is True

    def hour_of(row: dict[str, object]) -> int:
        return (int(str(row["first_at"])) - SINCE_MS) // HOUR_MS

    errors = [row for row in rows if is_error(row)]
    by_hour = Counter(map(hour_of, rows))
    errors_by_hour = Counter(map(hour_of, errors))
    buckets = Counter(
        math.floor(math.log2(int(str(row["latency_ms"])) * 1000) * 8)
        for row in rows
        if row["latency_ms"] is not None
    )
    codes = Counter(str(row["code"]) for row in errors if row["code"])
    owners = Counter(str(row["owner"]) for row in rows if row["owner"])
    owners_errors = Counter(str(row["owner"]) for row in errors if row["owner"])
    assert (found.requests, found.errors) == (300, len(errors))
    assert found.pending == sum(row["is_pending"] is True for row in rows)
    assert found.resends_needed == sum(row["resend_needed"] is True for row in rows)
    assert found.by_state == Counter(str(row["state"] or "NO_ROW") for row in rows)
    assert found.findings == {
        one: sum(row[one.value] is True for row in rows) for one in REQUEST_FINDINGS
    }
    assert [hour.requests for hour in found.hours] == [by_hour[at] for at in range(24)]
    assert [hour.errors for hour in found.hours] == [errors_by_hour[at] for at in range(24)]
    assert found.latencies == buckets
    assert dict(found.codes) == codes
    assert {one.worker: (one.requests, one.errors) for one in found.workers} == {
        one: (owners[one], owners_errors[one]) for one in owners
    }


def test_the_window_ends_before_its_last_millisecond_is_over(spark: SparkSession) -> None:
    at = [-1, 0, HOUR_MS - 1, HOUR_MS, DAY_MS - 1, DAY_MS]
    rows = [judged_request(f"r{one}", first_at=SINCE_MS + one) for one in at]
    found = _figures(spark, [*rows, judged_request("none", first_at=None)])
    by_hour = {at: hour.requests for at, hour in enumerate(found.hours) if hour.requests}
    assert by_hour == {0: 2, 1: 1, 23: 1}
    assert (found.outside, found.requests) == (3, 7)


def test_times_that_nobody_could_have_meant_are_counted_all_the_same(spark: SparkSession) -> None:
    rows = [
        judged_request("most", first_at=2**63 - 1, latency_ms=2**63 - 1),
        judged_request("least", first_at=-1, latency_ms=0),
    ]
    found = _figures(spark, rows)
    assert found.requests == found.outside == 2
    assert sum(found.latencies.values()) == 2
    # What took no measurable time stands with what took a millisecond.
    assert min(found.latencies) == math.floor(math.log2(1000) * 8)


def test_only_the_commonest_codes_and_the_worst_workers_are_named(spark: SparkSession) -> None:
    rows = [
        judged_request(
            f"r{number}-{n}", state="FAILED", code=f"C{number:02}", owner=f"w{number:02}"
        )
        for number in range(TOP + 2)
        for n in range(number + 1)
    ]
    rows += [judged_request(f"fine{n}", code="RESULT_TOO_LARGE", owner="w99") for n in range(99)]
    rows += [judged_request("nobody", state="FAILED", code=None, owner=None)]
    found = _figures(spark, rows)
    assert [code for code, _ in found.codes] == [f"C{at:02}" for at in range(11, 1, -1)]
    assert found.workers[0] == WorkerShare("w11", 12, 12)
    assert len(found.workers) == TOP


def test_the_code_of_a_success_is_no_code_of_an_error(spark: SparkSession) -> None:
    rows = [judged_request("a", code="RESULT_TOO_LARGE"), judged_request("b", state="EXPIRED")]
    found = _figures(spark, rows)
    assert (found.codes, found.errors) == ((), 1)


def test_a_day_without_requests_is_counted(spark: SparkSession) -> None:
    found = _figures(spark, [])
    assert (found.requests, found.errors, found.workers) == (0, 0, ())
    assert len(found.hours) == 24
