"""The judged requests into counts, by one Spark job that returns few rows."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_audit.figures import (
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


def figures_of(judged: DataFrame, *, since_ms: int, until_ms: int) -> Figures:
    """Return the figures of the judged requests of a window (epoch ms)."""
    hours = -(-(until_ms - since_ms) // HOUR_MS)
    return tallied(_counted(judged, since_ms=since_ms, until_ms=until_ms), hours=hours)


def _counted(judged: DataFrame, *, since_ms: int, until_ms: int) -> list[Counted]:
    """Return all counts by one job: the requests are grouped once, and what is left, few rows as a
    rule, by each level. Handlers choose their codes, so only the first of them leave Spark."""
    is_error = F.coalesce(F.col("state").isin(*ERROR_STATES), F.lit(False)) | F.col("lost")
    grouped = (
        judged.select(
            _hour(since_ms, until_ms).alias("hour"),
            _bucket().alias("bucket"),
            F.coalesce(F.col("state"), F.lit(NO_ROW)).alias("state"),
            _flags().alias("flags"),
            "code",
            "owner",
            is_error.alias("is_error"),
        )
        .groupBy(*KEYS, "is_error")
        .agg(F.count("*").alias("requests"))
    )
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


def _hour(since_ms: int, until_ms: int) -> Column:
    first_at = F.col("first_at")
    is_inside = (first_at >= since_ms) & (first_at < until_ms)
    return F.when(is_inside, F.floor((first_at - since_ms) / HOUR_MS)).cast("int")


def _bucket() -> Column:
    # Floating point: a hostile time must not overflow. What takes less than 1 ms counts as 1 ms.
    us = F.greatest(F.col("latency_ms").cast("double"), F.lit(1.0)) * 1000.0
    has_ended = F.col("latency_ms").isNotNull()
    return F.when(has_ended, F.floor(F.log2(us) * BUCKETS_PER_OCTAVE)).cast("int")


def _flags() -> Column:
    bits = (F.when(F.col(name), 1 << bit).otherwise(0) for bit, name in enumerate(FLAGS))
    return reduce(lambda some, one: some.bitwiseOR(one), bits)
