"""The judged requests into counts, by one Spark job that returns few rows."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit.judge.figures import (
    BUCKETS_PER_OCTAVE,
    BY_CODE,
    BY_HOUR,
    BY_OWNER,
    BY_STATE,
    ERROR_STATES,
    FLAGS,
    HOUR_MS,
    KEYS,
    LEVELS,
    NO_ROW,
    TOP,
    Counted,
    Figures,
    tallied,
)


def figures_of(
    judged: DataFrame, *, since_ms: int, until_ms: int, plain: DataFrame | None = None
) -> Figures:
    """Return the figures of the requests of a window (epoch ms).

    Args:
        plain: the counts of those that were not judged, see `sift.plain_counts`.
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
