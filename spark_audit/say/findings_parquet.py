"""The judged requests with a finding: written as Parquet by kind, and read back as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import reduce
from operator import or_

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from spark_audit.findings import REQUEST_FINDINGS, SHOWN, URGENT, Finding, FindingRow
from spark_audit.output.location import Location, uri_of
from spark_audit.spark import frame_of

_DISAGREES = "_disagrees"
# A row may name any topic.
MOST_TOPICS = 1_000


def write_findings(
    judged: DataFrame, folder: Location, *, disagreeing: Collection[str] = ()
) -> None:
    """Write each request once for each of its findings, sorted by id within its kind.

    Args:
        folder: gets a folder `kind=<finding>` for each finding that was made.
        disagreeing: ids of the requests whose status disagrees.
    """
    columns = judged.columns
    flags = {one.value: F.col(one.value) for one in REQUEST_FINDINGS}
    if disagreeing:
        judged = _with_disagreements(judged, disagreeing)
        flags[Finding.STATUS_DISAGREES.value] = F.col(_DISAGREES).isNotNull()
    kinds = F.array_compact(F.array(*(F.when(is_it, F.lit(kind)) for kind, is_it in flags.items())))
    (
        judged.where(reduce(or_, flags.values()))
        .select(*columns, F.explode(kinds).alias("kind"))
        # One file a kind, so that its order is that of the whole kind.
        .repartition("kind")
        .sortWithinPartitions("kind", "request_id")
        .write.mode("overwrite")
        .partitionBy("kind")
        .parquet(uri_of(folder))
    )


def read_findings(spark: SparkSession, folder: Location, judged: StructType) -> DataFrame:
    """Return the findings that were written, with the column `kind`.

    Args:
        judged: the schema of the judged Parquet; a day without findings has no file to tell it.
    """
    schema = StructType([*judged.fields, StructField("kind", StringType())])
    return spark.read.schema(schema).parquet(uri_of(folder))


def first_of_each(findings: DataFrame, *, most: int = SHOWN) -> dict[Finding, list[FindingRow]]:
    """Return the first requests of each finding, the oldest first, in one Spark job."""
    oldest_first = (F.col("first_at").asc_nulls_last(), F.col("request_id"))
    rank = F.row_number().over(Window.partitionBy("kind").orderBy(*oldest_first))
    rows = (
        findings.withColumn("_rank", rank)
        .where(F.col("_rank") <= most)
        .orderBy("kind", "_rank")
        .select("kind", *FindingRow._fields)
    )
    first: dict[Finding, list[FindingRow]] = {}
    for kind, *found in rows.collect():
        first.setdefault(Finding(kind), []).append(FindingRow(*found))
    return first


def counted_by_topic(findings: DataFrame) -> dict[str | None, dict[Finding, int]]:
    """Return how many requests of each topic have each finding; of no topic are those without a
    record."""
    counts: dict[str | None, dict[Finding, int]] = {}
    counted = findings.groupBy("topic", "kind").count()
    for topic, kind, count in counted.orderBy("topic", "kind").limit(MOST_TOPICS).collect():
        counts.setdefault(topic, {})[Finding(kind)] = count
    return counts


def urgent(findings: DataFrame) -> Iterator[tuple[Finding, FindingRow]]:
    """Yield the requests that need a person, by finding and id, a part at a time; but for statuses
    that disagree, which have a file of their own."""
    kinds = [one.value for one in URGENT if one is not Finding.STATUS_DISAGREES]
    rows = findings.where(F.col("kind").isin(kinds)).orderBy("kind", "request_id")
    for kind, *found in rows.select("kind", *FindingRow._fields).toLocalIterator():
        yield Finding(kind), FindingRow(*found)


def to_resend(findings: DataFrame) -> Iterator[FindingRow]:
    """Yield the lost requests that are safe to send again, in the order of their first sending."""
    is_safe = (F.col("kind") == Finding.LOST.value) & F.col("can_resend")
    return _rows(findings.where(is_safe).orderBy("topic", "partition", "offset", "request_id"))


def _rows(rows: DataFrame) -> Iterator[FindingRow]:
    return (FindingRow(*row) for row in rows.select(*FindingRow._fields).toLocalIterator())


def _with_disagreements(judged: DataFrame, disagreeing: Collection[str]) -> DataFrame:
    names = [(name, True) for name in sorted(set(disagreeing))]
    told = frame_of(judged.sparkSession, names, f"request_id string, {_DISAGREES} boolean")
    return judged.join(F.broadcast(told), "request_id", "left")
