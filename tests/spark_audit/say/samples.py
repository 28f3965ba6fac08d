"""Manifests, figures, judged requests and summaries to say something about."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_audit.findings import REQUEST_FINDINGS, Finding, FindingRow
from spark_audit.judge.day_verdict import parse_fail_on
from spark_audit.judge.figures import Figures, Hour, WorkerShare
from spark_audit.judge.status_check import Disagreement
from spark_audit.say.summary import Summary, summarise
from spark_audit.stage.gaps import Gap
from spark_audit.stage.manifest import Manifest

SINCE_MS = 1_795_132_800_000  # 2026-11-20T00:00:00Z
DAY_MS = 86_400_000
HOUR_MS = 3_600_000

JUDGED_SCHEMA = ", ".join(
    (
        "request_id string, topic string, partition int, offset long, first_at long",
        "state string, code string, attempt long, generation long",
        "records int, runs int, effect_runs int",
        "owner string, claimed_at long, finished_at long, deadline_at long, latency_ms long",
        "dead_letters int, reason string, payload_sha256 string",
        "is_pending boolean, is_in_flight boolean, can_resend boolean, resend_needed boolean",
        *(f"{one.value} boolean" for one in REQUEST_FINDINGS),
    )
)
_NAMES = [column.split()[0] for column in JUDGED_SCHEMA.split(", ")]


_SAID = ("unseen", "resend", "history", "records", "statuses", "by_topic")


def judged_request(request_id: str = "r", *found: Finding, **more: Any) -> dict[str, Any]:
    """Return a judged request that succeeded within 250 ms of its first record."""
    claimed_at = SINCE_MS + 500
    row: dict[str, Any] = {
        "request_id": request_id,
        "topic": "payments",
        "partition": 0,
        "offset": 7,
        "first_at": claimed_at,
        "state": "SUCCEEDED",
        "code": None,
        "attempt": 1,
        "generation": 1,
        "records": 1,
        "runs": 1,
        "effect_runs": 1,
        "owner": "host-1-a",
        "claimed_at": claimed_at,
        "finished_at": claimed_at + 250,
        "deadline_at": claimed_at + HOUR_MS,
        "latency_ms": 250,
        "dead_letters": 0,
        "reason": None,
        "payload_sha256": "ab" * 32,
        "is_pending": False,
        "is_in_flight": False,
        "can_resend": False,
        "resend_needed": None,
    }
    return {**row, **{one.value: one in found for one in REQUEST_FINDINGS}, **more}


def judged_frame(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return judged requests as Spark has them."""
    values = [tuple(row[name] for name in _NAMES) for row in rows]
    return spark.createDataFrame(values, JUDGED_SCHEMA)


def found_request(request_id: str = "r", *found: Finding, **more: Any) -> FindingRow:
    """Return a judged request as it is written down."""
    row = judged_request(request_id, *found, **more)
    return FindingRow(**{name: row[name] for name in FindingRow._fields})


def manifest(**more: Any) -> Manifest:
    """Return the limits of 20 November 2026."""
    limits: dict[str, Any] = {
        "date": "2026-11-20",
        "since_ms": SINCE_MS,
        "until_ms": SINCE_MS + DAY_MS,
        "frozen_at_ms": SINCE_MS + DAY_MS + HOUR_MS,
        "journal_read_at_ms": SINCE_MS + DAY_MS + HOUR_MS,
        "group": "payments",
        "grace_ms": 600_000,
        "deadline_s": 3600.0,
        "partitions": (),
    }
    return Manifest(**{**limits, **more})


def figures(findings: Mapping[Finding, int] | None = None, **more: Any) -> Figures:
    """Return the figures of a day with 100 requests at noon, one of them an error."""
    hours = [Hour(0, 0, {})] * 24
    hours[12] = Hour(100, 1, {140: 98, 200: 2})
    numbers: dict[str, Any] = {
        "requests": 100,
        "errors": 1,
        "pending": 0,
        "in_flight": 0,
        "resends_needed": 0,
        "outside": 0,
        "by_state": {"FAILED": 1, "SUCCEEDED": 99},
        "findings": dict.fromkeys(REQUEST_FINDINGS, 0) | dict(findings or {}),
        "hours": tuple(hours),
        "latencies": {140: 98, 200: 2},
        "codes": (("CARD_REFUSED", 1),),
        "workers": (WorkerShare("host-1-a", 100, 1),),
    }
    return Figures(**{**numbers, **more})


def summary(
    findings: Mapping[Finding, int] | None = None,
    *,
    gaps: Sequence[Gap] = (),
    disagreements: Sequence[Disagreement] | None = (),
    fail_on: str = "lost>0,ran_twice>0",
    **more: Any,
) -> Summary:
    """Return the summary of `figures` and `manifest`."""
    limits = {
        name: more.pop(name) for name in ("date", "group", "until_ms", "links") if name in more
    }
    said = {name: more.pop(name) for name in _SAID if name in more}
    return summarise(
        manifest(**limits),
        figures(findings, **more),
        gaps=gaps,
        disagreements=disagreements,
        conditions=parse_fail_on(fail_on),
        **said,
    )
