"""The figures of a day: counted in Spark, and added up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit.findings import REQUEST_FINDINGS, Finding


def figures_of(
    judged: DataFrame, *, since_ms: int, until_ms: int, plain: DataFrame | None = None
) -> Figures:
    """Return the figures of the requests of a window (epoch ms).

    Args:
        plain: the counts of those that were not judged, see `prefilter`.
    """
    hours = -(-(until_ms - since_ms) // HOUR_MS)
    grouped = _grouped(judged, since_ms, until_ms)
    if plain is not None:
        succeeded = {"state": F.lit("SUCCEEDED"), "flags": F.lit(0), "is_error": F.lit(False)}
        plain = plain.withColumns(succeeded)
        grouped = grouped.unionByName(plain, allowMissingColumns=True)
    return tallied(_counted(grouped), hours=hours)


def records_by_kind(records: DataFrame) -> dict[str, int]:
    """Return how many records of the window there are of each kind."""
    counted = records.where("in_window").groupBy("kind").count().collect()
    return {row["kind"]: row["count"] for row in sorted(counted)}


def hour(at: Column, since_ms: int, until_ms: int) -> Column:
    """Return the hour of a window in which a moment lies; null outside."""
    is_inside = (at >= since_ms) & (at < until_ms)
    return F.when(is_inside, F.floor((at - since_ms) / HOUR_MS)).cast("int")


def bucket(latency_ms: Column) -> Column:
    """Return the bucket of the histogram; null where there is no latency."""
    # Floating point: a hostile time must not overflow. Less than 1 ms counts as 1 ms.
    us = F.greatest(latency_ms.cast("double"), F.lit(1.0)) * 1000.0
    has_ended = latency_ms.isNotNull()
    return F.when(has_ended, F.floor(F.log2(us) * BUCKETS_PER_OCTAVE)).cast("int")


def _grouped(judged: DataFrame, since_ms: int, until_ms: int) -> DataFrame:
    is_error = F.coalesce(F.col("state").isin(*ERROR_STATES), F.lit(False)) | F.col("lost")
    return (
        judged.select(
            hour(F.col("first_at"), since_ms, until_ms).alias("hour"),
            bucket(F.col("latency_ms")).alias("bucket"),
            F.coalesce(F.col("state"), F.lit(NO_ROW)).alias("state"),
            _flags().alias("flags"),
            "code",
            "owner",
            is_error.alias("is_error"),
        )
        .groupBy(*KEYS, "is_error")
        .agg(F.count("*").alias("requests"))
    )


def _counted(grouped: DataFrame) -> list[Counted]:
    """Return all counts by one job: the requests are grouped once, and the few rows that are left
    are grouped by each level. Handlers choose their codes, so only the first of them leave
    Spark."""
    errors = F.when(F.col("is_error"), F.col("requests")).otherwise(0)
    level, code, owner = F.col("level"), F.col("code"), F.col("owner")
    worst_first = Window.partitionBy("level").orderBy(
        F.desc("errors"), F.desc("requests"), code, owner
    )
    counted = (
        grouped.groupingSets([list(names) for names in LEVELS], *KEYS)
        .agg(
            F.grouping_id().alias("level"),
            F.sum("requests").alias("requests"),
            F.sum(errors).alias("errors"),
        )
        .where((level != BY_CODE) | (code.isNotNull() & (F.col("errors") > 0)))
        .where((level != BY_OWNER) | owner.isNotNull())
        .withColumn("rank", F.row_number().over(worst_first))
        .where(level.isin(BY_HOUR, BY_STATE) | (F.col("rank") <= TOP))
        .select(*Counted._fields)
    )
    return [Counted(*row) for row in counted.collect()]


def _flags() -> Column:
    bits = (F.when(F.col(name), 1 << bit).otherwise(0) for bit, name in enumerate(FLAGS))
    return reduce(lambda some, one: some.bitwiseOR(one), bits)


HOUR_MS = 3_600_000
# Percentiles cannot be merged; the counts of a log histogram can.
BUCKETS_PER_OCTAVE = 8
# The state of a request without a journal row.
NO_ROW = "NO_ROW"
# States that a client was told and that are no success. Lost requests count as errors as well.
ERROR_STATES = ("FAILED", "IN_DOUBT", "EXPIRED")
TOP = 10

_PENDING, _IN_FLIGHT, _NEEDED = "is_pending", "is_in_flight", "resend_needed"
FLAGS = (*(finding.value for finding in REQUEST_FINDINGS), _PENDING, _IN_FLIGHT, _NEEDED)
KEYS = ("hour", "bucket", "state", "flags", "code", "owner")
LEVELS = (("hour", "bucket"), ("state", "flags"), ("code",), ("owner",))


def _level(names: tuple[str, ...]) -> int:
    # Spark's grouping id: a bit for each key that a row was not counted by, the first key highest.
    return sum(1 << bit for bit, key in enumerate(reversed(KEYS)) if key not in names)


BY_HOUR, BY_STATE, BY_CODE, BY_OWNER = map(_level, LEVELS)


class Counted(NamedTuple):
    """One row of the counts that Spark returns: a field outside its `level` is None.

    Args:
        level: Spark's grouping id, which names the columns of the group.
        hour: since the window's begin; None for requests whose first record lies outside.
        bucket: of the latency histogram; None for requests without an end.
        flags: one bit for each of the judged flags that is true.
    """

    level: int
    hour: int | None
    bucket: int | None
    state: str | None
    flags: int | None
    code: str | None
    owner: str | None
    requests: int
    errors: int


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour of the window; `latencies` counts requests by histogram bucket."""

    requests: int
    errors: int
    latencies: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """A worker's share of the requests."""

    worker: str
    requests: int
    errors: int


@dataclass(frozen=True, slots=True)
class Figures:
    """A day in numbers.

    Args:
        resends_needed: requests that only a later sending brought to where they are.
        outside: requests whose first record lies outside the window: carried over, or orphans.
        latencies: all requests that ended, by histogram bucket.
        codes: the commonest codes of errors, the commonest first.
        workers: those with the most errors, the worst first.
    """

    requests: int
    errors: int
    pending: int
    in_flight: int
    resends_needed: int
    outside: int
    by_state: Mapping[str, int]
    findings: Mapping[Finding, int]
    hours: tuple[Hour, ...]
    latencies: Mapping[int, int]
    codes: tuple[tuple[str, int], ...]
    workers: tuple[WorkerShare, ...]


def tallied(rows: Iterable[Counted], *, hours: int) -> Figures:
    """Return the figures that the counts add up to."""
    by_state: Counter[str] = Counter()
    flagged: Counter[str] = Counter()
    requests: Counter[int | None] = Counter()
    errors: Counter[int | None] = Counter()
    latencies: dict[int | None, Counter[int]] = {}
    codes: list[tuple[str, int]] = []
    workers: list[WorkerShare] = []
    for row in rows:
        if row.level == BY_HOUR:
            requests[row.hour] += row.requests
            errors[row.hour] += row.errors
            if row.bucket is not None:
                latencies.setdefault(row.hour, Counter())[row.bucket] += row.requests
        elif row.level == BY_STATE:
            by_state[row.state or NO_ROW] += row.requests
            for bit, name in enumerate(FLAGS):
                if (row.flags or 0) >> bit & 1:
                    flagged[name] += row.requests
        elif row.level == BY_CODE:
            codes.append((row.code or "", row.errors))
        else:
            workers.append(WorkerShare(row.owner or "", row.requests, row.errors))
    return Figures(
        requests=sum(by_state.values()),
        errors=sum(errors.values()),
        pending=flagged[_PENDING],
        in_flight=flagged[_IN_FLIGHT],
        resends_needed=flagged[_NEEDED],
        outside=requests[None],
        by_state=dict(sorted(by_state.items())),
        findings={finding: flagged[finding.value] for finding in REQUEST_FINDINGS},
        hours=tuple(
            Hour(requests[hour], errors[hour], _sorted(latencies.get(hour, Counter())))
            for hour in range(hours)
        ),
        latencies=_sorted(sum(latencies.values(), Counter())),
        codes=tuple(sorted(codes, key=lambda one: (-one[1], one[0]))),
        workers=tuple(sorted(workers, key=lambda one: (-one.errors, -one.requests, one.worker))),
    )


def quantile_ms(histogram: Mapping[int, int], share: float) -> float | None:
    """Return the latency that `share` of the requests did not exceed; None without latencies.

    It is the upper edge of a bucket, so up to 9 % too high and never too low.

    >>> quantile_ms({80: 99, 160: 1}, 0.5)
    1.12
    """
    rank = math.ceil(sum(histogram.values()) * share)
    seen = 0
    for bucket, count in sorted(histogram.items()):
        seen += count
        if seen >= rank:
            return float(f"{2 ** ((bucket + 1) / BUCKETS_PER_OCTAVE) / 1000:.3g}")
    return None


def _sorted(counts: Mapping[int, int]) -> dict[int, int]:
    return dict(sorted(counts.items()))
