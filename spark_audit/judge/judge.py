"""The judgement of each request, from one grouping and one join.

A request may have many records and many runs in the history: these take one narrow shape and are
grouped by the id once; the journal's row, of which there is one, is joined to the group. Measured,
that is several times faster than one join for each finding, and a twelfth less work than grouping
the rows as well. `judged_places` says which requests are the day's; `judge_rules` are the rules.

Not obvious. Groups and join go by a hash of the id first and by the id itself second: sorting by a
number is cheap, and no two ids are ever mixed up. Many entries of one id are grouped where they lie
and then brought together: a million copies of one id are a few rows by then, and no task has them
all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit.findings import REQUEST_FINDINGS
from spark_audit.judge import judge_rules as rules
from spark_audit.judge.judged_places import (
    has_run_again,
    is_late_letter,
    is_placed,
    marks_frame,
    may_be_forgotten,
    ranges_frame,
    with_places,
)
from spark_audit.judge.letter_rules import LETTERED, awaits_letter, dead_letter_without_failure
from spark_audit.spark import ids_frame
from spark_audit.stage.manifest import Manifest, TopicKind

_KEY = ("id_hash", "request_id")


def judge(
    spark: SparkSession,
    records: DataFrame,
    requests: DataFrame,
    runs: DataFrame,
    manifest: Manifest,
    allowed_ms: Mapping[str, int],
) -> DataFrame:
    """Return one row for each request of the day, and for each that was carried into it.

    A request is of the day when one of its records on a request topic is. Where no such record was
    read, its row, run or dead letter counts, by the place that it names. One of an earlier day is
    of this one too when it ran again since the journal was read for that, or has a dead letter
    since then that its row denies: no other day would say so.

    Args:
        allowed_ms: see `allowed_times`, by topic.
    """
    found = gather(spark, records, requests, runs, manifest, allowed_ms)
    is_placed = F.col("is_placed") | F.coalesce("row.is_placed", F.lit(False))
    has_run_again = F.coalesce("row.has_run_again", F.lit(False))
    is_denied = F.col("has_late_letter") & rules.has_row()
    is_denied &= dead_letter_without_failure(manifest)
    is_of_window = F.col("is_named") | ((F.col("records") == 0) & is_placed)
    is_of_window |= has_run_again | is_denied
    is_known = rules.has_record() | rules.has_row() | (F.col("history") > 0)
    return found.where(is_of_window & is_known).select(*_judged(manifest))


def gather(
    spark: SparkSession,
    records: DataFrame,
    requests: DataFrame,
    runs: DataFrame,
    manifest: Manifest,
    allowed_ms: Mapping[str, int],
) -> DataFrame:
    """Return the columns that the rules read, for each id."""
    ranges = ranges_frame(spark, manifest)
    marks = marks_frame(spark, manifest)
    marked = records.join(F.broadcast(marks), ["topic", "partition"], "left")
    seen = _union(
        _of_records(with_places(marked, ranges, "original_"), manifest, allowed_ms),
        _of_runs(with_places(runs, ranges), manifest),
    )
    if manifest.carried:
        carried = ids_frame(spark, manifest.carried)
        flags = {"is_named": F.lit(True), "is_carried": F.lit(True)}
        seen = _union(seen, carried.withColumns(flags))
    else:
        seen = seen.withColumn("is_carried", F.lit(False))
    grouped = _keyed(seen).groupBy(*_KEY).agg(*_aggregates())
    rows = _keyed(_of_requests(with_places(requests, ranges), manifest))
    return grouped.join(rows, list(_KEY), "full_outer").select("request_id", "row", *_filled())


def _keyed(frame: DataFrame) -> DataFrame:
    return frame.withColumn("id_hash", F.xxhash64("request_id"))


def _union(left: DataFrame, right: DataFrame) -> DataFrame:
    return left.unionByName(right, allowMissingColumns=True)


def _of_records(records: DataFrame, manifest: Manifest, allowed_ms: Mapping[str, int]) -> DataFrame:
    is_request = F.col("kind") == TopicKind.REQUEST
    is_letter = F.col("kind") == TopicKind.DLQ
    is_outcome = F.col("kind") == TopicKind.OUTCOME
    # A record without a time, as old clients write it, is -1: it lies behind the window's begin.
    # One of the future was sent before it was read.
    sent_at = F.when(
        F.col("timestamp_ms") >= 0, F.least("timestamp_ms", "arrived_by_ms")
    ).otherwise(manifest.since_ms)
    place = ("topic", "partition", "offset")
    letter = F.struct(
        sent_at.alias("sent_at"),
        *place,
        "reason",
        *(f"original_{name}" for name in place),
        (F.col("in_window") & F.col("is_staged")).alias("is_placed"),
        is_late_letter(manifest).alias("is_late"),
    )
    seen = F.struct(sent_at.alias("sent_at"), *place)
    fallback = sent_at + _longest_ms(manifest, allowed_ms)
    # Delivered, and sent by somebody who had read of a failure.
    reopening = F.struct("reopens", "attempt", "topic")
    reopens = is_request & F.col("is_committed") & F.col("reopens").isNotNull()
    is_unnamed = is_request & F.col("deadline_at").isNull()
    is_due = F.col("kind").isin(TopicKind.REQUEST, TopicKind.RETRY)
    return records.select(
        "request_id",
        (is_request & F.col("in_window")).alias("is_named"),
        F.when(is_request, seen).alias("seen"),
        F.when(is_letter, letter).alias("letter"),
        F.when(is_request, F.col("payload_sha256")).alias("payload_sha256"),
        "attempt",
        F.when(reopens, reopening).alias("reopening"),
        F.when(is_due, F.coalesce(_in_our_time(sent_at), fallback)).alias("deadline_at"),
        # An outcome proves an end, not that its request was sent.
        F.when(~is_outcome, is_due & ~F.col("is_committed")).alias("is_undelivered"),
        is_outcome.alias("has_outcome"),
        (is_request & F.col("is_malformed")).alias("is_malformed"),
        # Its own may have been as short as one likes.
        (is_request & may_be_forgotten(sent_at)).alias("may_be_forgotten"),
        (is_unnamed & ~F.col("topic").isin(*allowed_ms)).alias("has_unknown_time"),
    )


def _longest_ms(manifest: Manifest, allowed_ms: Mapping[str, int]) -> Column:
    """Return how long a request that names no deadline may have waited for its run, at most."""
    default_ms = round(manifest.deadline_s * 1000)
    of_topic = (
        F.when(F.col("topic") == topic, max(longest_ms, default_ms))
        for topic, longest_ms in allowed_ms.items()
    )
    return F.coalesce(*of_topic, F.lit(default_ms))


def _in_our_time(sent_at: Column) -> Column:
    """Return the deadline that a record names, as our clocks count.

    Where its sender's clock was ahead, its deadline is by as much: by 2099 nobody would miss it.

    Args:
        sent_at: epoch ms, its own time where it may be right, else when it had arrived.
    """
    deadline_at, at = F.col("deadline_at"), F.col("timestamp_ms")
    is_ahead = (at > sent_at) & (deadline_at >= at)
    return F.when(is_ahead, deadline_at - at + sent_at).otherwise(deadline_at)


def _of_runs(runs: DataFrame, manifest: Manifest) -> DataFrame:
    may_follow = F.coalesce(F.col("allowed_by").isin(*rules.MAY_FOLLOW), F.lit(False))
    says_nothing_happened = F.col("outcome").isin(*rules.NOTHING_HAPPENED)
    left_nothing = F.col("effect_at").isNull() | says_nothing_happened | may_follow
    left_nothing |= F.coalesce(F.col("effect_kind") == rules.TRANSACTIONAL, F.lit(False))
    stands_above = F.coalesce(F.col("allowed_by").isin(*rules.MAY_STAND_ABOVE), F.lit(False))
    ran_as = (
        F.when(stands_above, "nothing")
        .when(F.col("outcome") == "SUCCEEDED", "succeeded")
        .when(left_nothing, "nothing")
        .when(F.col("outcome") == "IN_DOUBT", "doubt")
        .otherwise("entered")
    )
    run = F.struct(
        *("claimed_at", "topic", "partition", "offset", "generation", "outcome"),
        ran_as.alias("ran_as"),
        F.col("effect_kind").isNotNull().alias("is_declared"),
        is_placed(F.col("claimed_at"), manifest).alias("is_placed"),
    )
    return runs.select("request_id", "attempt", run.alias("run"))


def _of_requests(requests: DataFrame, manifest: Manifest) -> DataFrame:
    row = F.struct(
        *("topic", "partition", "offset", "payload_sha256", "attempt", "generation"),
        *("effect_kind", "effect_at", "deadline_at", "state", "owner", "claimed_at"),
        *("finished_at", "code", "resend", "dead_letter_at", "is_staged", "is_earlier"),
        "is_reached",
        is_placed(F.coalesce("claimed_at", "finished_at"), manifest).alias("is_placed"),
        has_run_again(manifest).alias("has_run_again"),
    )
    return requests.select("request_id", row.alias("row"))


def _aggregates() -> Iterator[Column]:
    """Yield the columns of a group."""
    reason = F.coalesce("letter.reason", F.lit(""))
    accuses = F.col("letter").isNotNull() & (reason != rules.PAYLOAD_MISMATCH)
    is_doubt, is_declared = F.col("run.ran_as") == "doubt", F.col("run.is_declared")
    has_entered = F.col("run.ran_as") == "entered"
    bit = rules.bit_of("run.generation")
    aggregates = {
        "is_named": F.max("is_named"),
        "is_carried": F.max("is_carried"),
        "is_placed": F.max(F.coalesce("letter.is_placed", "run.is_placed")),
        "has_late_letter": F.max("letter.is_late"),
        "has_undelivered": F.max("is_undelivered"),
        "has_malformed": F.max("is_malformed"),
        "may_be_forgotten": F.max("may_be_forgotten"),
        "has_unknown_time": F.max("has_unknown_time"),
        "has_outcome": F.max("has_outcome"),
        "has_failed": F.max(F.col("run.outcome").isin(*LETTERED)),
        "first": F.min("seen"),
        "attempt": F.max("attempt"),
        "least_attempt": F.min(F.when(F.col("seen").isNotNull(), F.col("attempt"))),
        "deadline_at": F.max("deadline_at"),
        "reopening": F.max("reopening"),
        "least_payload": F.min("payload_sha256"),
        "greatest_payload": F.max("payload_sha256"),
        "last_letter": F.max("letter"),
        "first_run": F.min("run"),
        "doubts": F.bit_or(F.when(is_doubt & is_declared, bit)),
        "undeclared_doubts": F.bit_or(F.when(is_doubt & ~is_declared, bit)),
        "settled": F.bit_or(F.when(~is_doubt, bit)),
        "records": F.count("seen"),
        "sightings": F.count("is_undelivered"),
        "dead_letters": F.count("letter"),
        "accusing_letters": F.count_if(accuses),
        "history": F.count("run"),
        "succeeded": F.count_if(F.col("run.ran_as") == "succeeded"),
        "entered": F.count_if(has_entered & is_declared),
        "undeclared_entered": F.count_if(has_entered & ~is_declared),
    }
    for name, aggregate in aggregates.items():
        yield aggregate.alias(name)


def _filled() -> Iterator[Column]:
    """Yield the columns of a group, with their values for an id that has only a row."""
    flags = (
        *(
            "is_named",
            "is_carried",
            "is_placed",
            "has_late_letter",
            "has_undelivered",
            "has_malformed",
        ),
        *("has_failed", "may_be_forgotten", "has_outcome", "has_unknown_time"),
    )
    counts = ("records", "sightings", "dead_letters", "accusing_letters", "history")
    runs = (
        *("succeeded", "entered", "undeclared_entered"),
        *("doubts", "undeclared_doubts", "settled"),
    )
    unset = {**dict.fromkeys(flags, False), **dict.fromkeys((*counts, *runs), 0)}
    for name, value in unset.items():
        yield F.coalesce(name, F.lit(value)).alias(name)
    facts = (
        *("first", "first_run", "last_letter", "reopening"),
        *("attempt", "least_attempt", "deadline_at"),
    )
    yield from map(F.col, (*facts, "least_payload", "greatest_payload"))


def _judged(manifest: Manifest) -> Iterator[Column]:
    """Yield the columns of a judged request, as the contract of the folder names them."""
    places = ("first.{0}", "row.{0}", "first_run.{0}", "last_letter.original_{0}")
    times = ("first.sent_at", "row.claimed_at", "row.finished_at", "first_run.claimed_at")
    first_at = F.coalesce(*times, "last_letter.sent_at")
    latency = F.col("row.finished_at") - F.col("first.sent_at")
    ran = F.when(F.col("row.claimed_at").isNotNull(), 1).otherwise(0)
    columns: dict[str, Column] = {
        "request_id": F.col("request_id"),
        **{
            name: F.coalesce(*(place.format(name) for place in places))
            for name in ("topic", "partition", "offset")
        },
        "first_at": first_at,
        "state": F.col("row.state"),
        "code": F.col("row.code"),
        "attempt": F.greatest("attempt", "row.attempt"),
        "generation": F.coalesce("row.generation", F.lit(0)),
        "records": F.col("records").cast("int"),
        "runs": (F.col("history") + ran).cast("int"),
        "effect_runs": rules.effect_runs(),
        "owner": F.col("row.owner"),
        "claimed_at": F.col("row.claimed_at"),
        "finished_at": F.col("row.finished_at"),
        "deadline_at": rules.deadline_at(),
        "latency_ms": F.when(latency.isNotNull(), F.greatest(latency, F.lit(0))),
        "dead_letters": F.col("dead_letters").cast("int"),
        "reason": F.col("last_letter.reason"),
        "payload_sha256": F.least("least_payload", "row.payload_sha256"),
        "is_pending": rules.is_pending(),
        "is_in_flight": rules.is_in_flight(manifest),
        "awaits_letter": awaits_letter(manifest),
        "awaits_reopening": rules.awaits_reopening(manifest),
        "can_resend": rules.can_resend(manifest),
        "resend_needed": rules.resend_needed(manifest),
        **{str(finding): rules.RULES[finding](manifest) for finding in REQUEST_FINDINGS},
    }
    for name, column in columns.items():
        yield column.alias(name)
