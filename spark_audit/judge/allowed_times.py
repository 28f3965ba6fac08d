"""How long requests that name no deadline may wait, as rows of the journal show it.

Such a request has its handler's `deadline_s`, else that of `[worker]`. A handler's declaration is
code, which no audit sees; but each row has the deadline that a worker gave its request: the
record's time, and that span. The longest of a topic counts, since a handler's may have been changed
during the day. A failure's row says nothing: a redrive gives it a new deadline.

Rows and records are brought together only for the topics where the answer matters: on a usual day
there are none.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit.spark import ids_frame
from spark_audit.stage.manifest import TopicKind


def topics_in_question(
    records: DataFrame, requests: DataFrame, carried: Collection[str]
) -> list[str]:
    """Return the topics of requests that have no row and name no deadline, and that the day judges.

    Args:
        carried: the ids that an earlier run could not judge to the end.
    """
    unnamed = _unnamed(records)
    judged = unnamed.where("in_window")
    if carried:
        ids = ids_frame(records.sparkSession, carried)
        judged = judged.unionByName(unnamed.join(ids, "request_id", "left_semi"))
    unnamed = judged.select("request_id", "topic").join(requests, "request_id", "left_anti")
    return sorted(row.topic for row in unnamed.select("topic").distinct().collect())


def allowed_times(records: DataFrame, requests: DataFrame, topics: list[str]) -> dict[str, int]:
    """Return the longest time of each of these topics, in milliseconds; none of a topic without a
    row that tells of it."""
    if not topics:
        return {}
    sent = _unnamed(records).where(F.col("topic").isin(topics) & (F.col("timestamp_ms") >= 0))
    tells = (F.col("generation") == 1) & (F.col("state") != "FAILED")
    rows = requests.where(F.col("topic").isin(topics) & tells)
    named = sent.select("topic", _key(), "timestamp_ms")
    allowed = F.col("deadline_at") - F.col("timestamp_ms")
    found = (
        named.join(rows.select(_key(), "deadline_at"), "key").groupBy("topic").agg(F.max(allowed))
    )
    return dict(sorted(tuple(row) for row in found.collect()))


def _unnamed(records: DataFrame) -> DataFrame:
    is_request = F.col("kind") == TopicKind.REQUEST
    return records.where(is_request & F.col("deadline_at").isNull())


def _key() -> Column:
    return F.xxhash64("topic", "partition", "offset", "request_id").alias("key")
