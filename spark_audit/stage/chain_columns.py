"""The chain as Spark columns: of each record, the day that judges it, and when it had arrived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_audit.spark import frame_of
from spark_audit.stage.chain import (
    STRAY_MS,
    ChainLink,
    OffsetRange,
    PartitionName,
    RunReach,
    first_reached,
)
from spark_audit.stage.manifest import Manifest

_BOUNDS = ("first", "after", "strays_from")


def with_chain(frame: DataFrame, manifest: Manifest) -> DataFrame:
    """Return records with two columns more.

    `judged_on` is the date of the day that judges a record, and null while none does;
    `arrived_by_ms` is a time (epoch ms) at which it had arrived, independent of its own.
    """
    runs = _runs(manifest)
    bounds = F.broadcast(_bounds(frame.sparkSession, runs, manifest))
    joined = frame.join(bounds, ["topic", "partition"], "left")
    owner = F.coalesce(
        *(_taken(index, run) for index, run in enumerate(runs)), F.lit(None).cast("string")
    )
    arrived = F.coalesce(
        *(_arrived(index, run) for index, run in enumerate(runs)),
        F.lit(manifest.before_ms or manifest.frozen_at_ms),
    )
    names = [f"{name}_{index}" for index in range(len(runs)) for name in _BOUNDS]
    return joined.withColumns({"judged_on": owner, "arrived_by_ms": arrived}).drop(*names)


def counted_links(records: DataFrame, manifest: Manifest) -> tuple[ChainLink, ...]:
    """Return the links of a manifest with the sums of its records."""
    place = ("topic", "partition")
    own = {(one.topic, one.partition): _own(one, manifest) for one in manifest.links}
    found = with_chain(records.select(*place, "offset", "timestamp_ms"), manifest)
    is_waiting = F.col("judged_on").isNull() & (F.col("offset") >= F.col("first"))
    rows = (
        found.join(F.broadcast(_own_frame(records.sparkSession, manifest, own)), list(place))
        .groupBy(*place)
        .agg(
            F.count_if(F.col("judged_on") == manifest.date),
            F.count_if(F.exists("own", _holds)),
            F.count_if(is_waiting),
            F.min(F.when(is_waiting, F.col("offset"))),
        )
    )
    counts = {(topic, number): count for topic, number, *count in rows.collect()}
    partitions = {(one.topic, one.partition): one for one in manifest.partitions}
    links = []
    for link in manifest.links:
        at = (link.topic, link.partition)
        judged, within, waiting, next_first = counts.get(at, (0, 0, 0, None))
        begin, end = partitions[at].begin, max(link.first, partitions[at].end)
        reached = sum(after - first for first, after in own[at])
        gone = sum(min(after, begin) - first for first, after in own[at] if first < begin)
        links.append(
            replace(
                link,
                next_first=end if next_first is None else next_first,
                judged=judged,
                silent=reached - gone - within,
                gone=gone,
                waiting=waiting,
            )
        )
    return tuple(links)


def _own(link: ChainLink, manifest: Manifest) -> list[OffsetRange]:
    return list(first_reached(link.reaches, manifest.date))


def _own_frame(
    spark: SparkSession, manifest: Manifest, own: Mapping[PartitionName, list[OffsetRange]]
) -> DataFrame:
    rows = [
        (
            *(one.topic, one.partition, one.first),
            [{"first": first, "after": after} for first, after in own[one.topic, one.partition]],
        )
        for one in manifest.links
    ]
    schema = "topic string, partition int, first long, own array<struct<first:long,after:long>>"
    return frame_of(spark, rows, schema)


def _holds(stretch: Column) -> Column:
    return (F.col("offset") >= stretch["first"]) & (F.col("offset") < stretch["after"])


def _runs(manifest: Manifest) -> list[RunReach]:
    """Return one reach of each run, by number: but for offsets they are the same everywhere."""
    runs = {reach.number: reach for link in manifest.links for reach in link.reaches}
    return [runs[number] for number in sorted(runs)]


def _bounds(spark: SparkSession, runs: Iterable[RunReach], manifest: Manifest) -> DataFrame:
    """Return the offsets that each run takes of each partition: `first_0`, `after_0` and so on, in
    the order of the runs; null where it takes nothing."""
    numbers = [run.number for run in runs]
    rows = []
    for link in manifest.links:
        by_number = {reach.number: reach for reach in link.reaches}
        row: list[object] = [link.topic, link.partition]
        for number in numbers:
            reach = by_number.get(number)
            row += [None if reach is None else getattr(reach, name) for name in _BOUNDS]
        rows.append(row)
    columns = (f"{name}_{index} long" for index in range(len(numbers)) for name in _BOUNDS)
    return frame_of(spark, rows, ", ".join(["topic string", "partition int", *columns]))


def _taken(index: int, run: RunReach) -> Column:
    """Return the run's date where it takes a record, as `RunReach.takes`; else null."""
    offset, at = F.col("offset"), F.col("timestamp_ms")
    first, after, strays_from = (F.col(f"{name}_{index}") for name in _BOUNDS)
    is_of_day = (at < run.until_ms) | (at > run.frozen_at_ms)
    is_stray = (offset >= strays_from) & (offset < first) & (at < STRAY_MS)
    return F.when(((offset >= first) & (offset < after) & is_of_day) | is_stray, run.date)


def _arrived(index: int, run: RunReach) -> Column:
    is_reached = (F.col("offset") >= F.col(f"strays_from_{index}")) & (
        F.col("offset") < F.col(f"after_{index}")
    )
    return F.when(is_reached, F.lit(run.frozen_at_ms))
