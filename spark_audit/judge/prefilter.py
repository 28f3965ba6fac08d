"""The prefilter: plain requests are only counted, so that few are left to be judged.

Plain is a request of which there is one record and one row of the journal, nothing else, and both
name the same place and payload: sent once, delivered, run once, succeeded in time. No rule of
`judge_rules` says anything of it. On a usual day nearly all are, and the judgement's cost is to
bring all facts of a request together: text of 200 bytes a side. The prefilter brings five numbers
together instead, by a hash of the id.

It can take a plain request for one that is not, never the other way round. Two ids of one hash are
two records: not plain. A record and a row of two ids pass only where a hash of topic, partition,
offset and payload is the same as well: a place has one record, and its row is of that record.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit.judge.figures import bucket, hour
from spark_audit.spark import ids_frame
from spark_audit.stage.manifest import Manifest, TopicKind

# One task groups so many in some 100 MB.
_ENTRIES_AT_ONCE = 1_250_000
# Of each request whose status is to be compared, so many are looked at: few of them have findings.
_SPARE = 4
# In the place of an hour: of a request that is another day's, and of one of the day whose time lies
# outside its window.
_NO_HOUR, OUTSIDE = -1, -2


def sift(
    spark: SparkSession,
    records: DataFrame,
    requests: DataFrame,
    runs: DataFrame,
    manifest: Manifest,
    *,
    samples: int,
) -> DataFrame:
    """Return the requests to be judged, and the counts of the others.

    Columns: `is_plain`; of those to be judged `id_hash`; of plain ones of the day `hour`, `bucket`
    and `owner_hash`; and `requests`, how many. A column that does not apply is 0 or less: `hour` is
    `OUTSIDE` for those of the day whose time lies outside its window.

    Args:
        samples: how many plain requests are wanted among those to be judged; the same ones each
            time. There will be more.
    """
    sent = sum(one.end - one.start for one in manifest.partitions if one.kind == TopicKind.REQUEST)
    entries = [_of_records(records), _of_requests(requests), _noted(runs)]
    if manifest.carried:
        entries.append(_noted(ids_frame(spark, manifest.carried)))
    grouped = _grouped(entries, tasks=-(-2 * sent // _ENTRIES_AT_ONCE) or 1)
    is_pair = (F.col("records") == 1) & (F.col("rows") == 1) & (F.col("difference") == 0)
    every = max(1, sent // max(1, _SPARE * samples))
    is_plain = is_pair & ~F.col("is_odd") & (F.pmod("id_hash", F.lit(every)) != 0)
    first_at = F.when(F.col("first_at") >= 0, F.col("first_at"))
    latency_ms = F.greatest(F.col("finished_at") - first_at, F.lit(0))
    of_day = F.coalesce(hour(first_at, manifest.since_ms, manifest.until_ms), F.lit(OUTSIDE))
    counted = grouped.select(
        is_plain.alias("is_plain"),
        F.when(is_plain, 0).otherwise(F.col("id_hash")).alias("id_hash"),
        _if(is_plain & first_at.isNotNull(), of_day).alias("hour"),
        _if(is_plain, bucket(latency_ms)).alias("bucket"),
        _if(is_plain, F.col("owner_hash")).alias("owner_hash"),
    )
    # A null among the keys would cost more than all of the grouping.
    return counted.groupBy(*counted.columns).agg(F.count("*").alias("requests"))


def to_judge(frame: DataFrame, sifted: DataFrame) -> DataFrame:
    """Return the rows of a snapshot's frame that are to be judged."""
    wanted = sifted.where(~F.col("is_plain")).select("id_hash")
    hashed = frame.withColumn("id_hash", F.xxhash64("request_id"))
    return hashed.join(wanted, "id_hash", "left_semi").drop("id_hash")


def plain_counts(sifted: DataFrame, requests: DataFrame) -> DataFrame:
    """Return the plain requests of the day: hour, bucket, owner, and how many."""
    owners = requests.select("owner").distinct()
    named = owners.select("owner", F.xxhash64("owner").alias("owner_hash"))
    counts = sifted.where(F.col("is_plain") & (F.col("hour") != _NO_HOUR))
    of_window = F.when(F.col("hour") >= 0, F.col("hour")).alias("hour")
    return counts.join(F.broadcast(named), "owner_hash").select(
        of_window, "bucket", "owner", "requests"
    )


def _grouped(entries: Sequence[DataFrame], *, tasks: int) -> DataFrame:
    """Return the entries of each id, brought together."""
    every = reduce(lambda some, one: some.unionByName(one, allowMissingColumns=True), entries)
    # Before the grouping, since most ids have two entries: one by each side would reduce nothing.
    return (
        every.repartition(tasks, "id_hash")
        .groupBy("id_hash")
        .agg(
            F.count("first_at").alias("records"),
            F.count("finished_at").alias("rows"),
            # Of two that are the same, nothing.
            F.bit_xor("place_hash").alias("difference"),
            F.max("is_odd").alias("is_odd"),
            F.max("first_at").alias("first_at"),
            F.max("finished_at").alias("finished_at"),
            F.max("owner_hash").alias("owner_hash"),
        )
    )


def _of_records(records: DataFrame) -> DataFrame:
    # An outcome changes nothing about a request that has its row.
    others = records.where(F.col("kind") != TopicKind.OUTCOME)
    is_usual = (
        (F.col("kind") == TopicKind.REQUEST)
        & F.col("is_committed")
        & ~F.col("is_malformed")
        & (F.col("attempt") == 1)
        & (F.col("timestamp_ms") >= 0)
    )
    sent_at = F.least("timestamp_ms", "arrived_by_ms")
    return others.select(
        F.xxhash64("request_id").alias("id_hash"),
        _place_hash(),
        # Below zero where the record is another day's.
        F.when(F.col("in_window"), sent_at).otherwise(-1 - sent_at).alias("first_at"),
        _is_odd(is_usual),
    )


def _of_requests(requests: DataFrame) -> DataFrame:
    is_usual = (
        (F.col("state") == "SUCCEEDED")
        & (F.col("attempt") == 1)
        & (F.col("generation") == 1)
        & F.col("code").isNull()
        & F.col("owner").isNotNull()
        & F.col("claimed_at").isNotNull()
        & (F.col("finished_at") <= F.col("deadline_at"))
    )
    return requests.select(
        F.xxhash64("request_id").alias("id_hash"),
        _place_hash(),
        "finished_at",
        F.xxhash64("owner").alias("owner_hash"),
        _is_odd(is_usual),
    )


def _noted(frame: DataFrame) -> DataFrame:
    """Return the conditions of which each alone has a request judged."""
    return frame.select(F.xxhash64("request_id").alias("id_hash"), F.lit(True).alias("is_odd"))


def _place_hash() -> Column:
    return F.xxhash64("topic", "partition", "offset", "payload_sha256").alias("place_hash")


def _is_odd(is_usual: Column) -> Column:
    # Hashes leave nulls out.
    is_whole = F.col("topic").isNotNull() & F.col("payload_sha256").isNotNull()
    return (~F.coalesce(is_usual & is_whole, F.lit(False))).alias("is_odd")


def _if(condition: Column, value: Column) -> Column:
    return F.coalesce(F.when(condition, value), F.lit(_NO_HOUR))
