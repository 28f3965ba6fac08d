"""Turns rows of the driver into a frame, in the JVM alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def ids_frame(spark: SparkSession, ids: Iterable[str]) -> DataFrame:
    """Return ids as a frame of one column, `request_id`."""
    return frame_of(spark, [(one,) for one in ids], "request_id string")


def frame_of(spark: SparkSession, rows: Iterable[Sequence[object]], schema: str) -> DataFrame:
    """Return rows as a frame.

    Spark's own `createDataFrame` hands them to a Python process beside each executor. It would be
    the only reason for a cluster's machines to have Python.

    Args:
        rows: of text, whole numbers, booleans and None.
        schema: as in "topic string, offset long".
    """
    names = [one.split()[0] for one in schema.split(", ")]
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    parsed = F.from_json(F.lit(text), f"array<struct<{schema}>>", {"mode": "FAILFAST"})
    return spark.range(0, 1, numPartitions=1).select(F.inline(parsed))
