"""A day in which one id was sent again and again: no task has all of its copies."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit.judge.judge import judge
from tests.spark_audit.judge.day import ALLOWED, TOPIC, Day

COPIES = 20_000
TASKS = 4
HOT = "hot"


def _copies(spark: SparkSession, of: DataFrame) -> DataFrame:
    """Return many copies of a record, behind it in its partition."""
    numbers = spark.range(1, COPIES, numPartitions=TASKS)
    copies = of.crossJoin(F.broadcast(numbers)).repartition(TASKS)
    behind = {"offset": F.col("offset") + F.col("id"), "attempt": F.col("id") + 1}
    return copies.withColumns(behind).select(*of.columns)


def _moved(plan: Any) -> int:
    """Return the rows that the largest exchange of an executed plan has moved."""
    below = [plan.children().apply(number) for number in range(plan.children().length())]
    moved = max(map(_moved, below), default=0)
    if plan.nodeName() == "Exchange":
        moved = max(moved, int(plan.metrics().apply("shuffleRecordsWritten").value()))
    return moved


def test_copies_of_one_id_are_grouped_where_they_lie(spark: SparkSession) -> None:
    day = Day(partitions=1)
    for number in range(20):
        day.journal(day.send(f"plain-{number}"))
    hot = day.send(HOT)
    day.journal(hot)
    day._next[TOPIC, 0] += COPIES
    records, requests, runs = day.frames(spark)
    folded = _copies(spark, records.where(F.col("request_id") == HOT)).localCheckpoint()
    assert folded.rdd.getNumPartitions() == TASKS
    every = records.unionByName(folded)
    judged = judge(spark, every, requests, runs, day.manifest, ALLOWED)
    rows = {row["request_id"]: row for row in judged.collect()}
    assert (rows[HOT]["records"], rows[HOT]["resent"]) == (COPIES, True)
    assert (rows[HOT]["offset"], len(rows)) == (hot["offset"], 21)
    assert _moved(judged._jdf.queryExecution().executedPlan()) < 100
