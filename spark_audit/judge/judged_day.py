"""A day from its snapshot to its judgement: first the prefilter, then the rules on the requests
that it leaves."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from spark_audit.judge.allowed_times import allowed_times, topics_in_question
from spark_audit.judge.judge import judge
from spark_audit.judge.prefilter import plain_counts, sift, to_judge
from spark_audit.output.location import Location, read_written, uri_of
from spark_audit.output.outputs import replacing, settled
from spark_audit.output.paths import DayPaths
from spark_audit.stage.manifest import Manifest
from spark_audit.stage.snapshot import Snapshot
from spark_audit.stage.stage_records import SCHEMA


@dataclass(frozen=True, slots=True)
class JudgedDay:
    """The requests of a day after their judgement.

    Args:
        records: those of its snapshot.
        requests: one row for each that was judged, with its findings; see `judge`.
        plain: the counts of the others, of which no rule says anything; see `sift`.
    """

    records: DataFrame
    requests: DataFrame
    plain: DataFrame


def judge_day(
    spark: SparkSession,
    snapshot: Snapshot[Location],
    manifest: Manifest,
    places: DayPaths[Location],
    *,
    samples: int,
) -> JudgedDay:
    """Judge a day and return its requests from where they were written.

    Args:
        samples: how many requests are judged though they are plain, at least.

    Raises:
        NotAvailable: the disk is full.
    """
    # By their schema: an older snapshot lacks a column.
    records = spark.read.schema(SCHEMA).parquet(uri_of(snapshot.records))
    requests, runs = (
        spark.read.parquet(uri_of(folder)) for folder in (snapshot.requests, snapshot.runs)
    )
    sifted = _kept(
        spark, sift(spark, records, requests, runs, manifest, samples=samples), places.sifted
    )
    left = (to_judge(records, sifted), to_judge(requests, sifted), to_judge(runs, sifted))
    topics = topics_in_question(*left[:2], manifest.carried)
    judged = judge(spark, *left, manifest, allowed_times(records, requests, topics))
    kept = _kept(spark, judged, places.judged)
    return JudgedDay(records, kept, plain_counts(sifted, requests))


def _kept(spark: SparkSession, frame: DataFrame, place: Location) -> DataFrame:
    """Return a frame from where it was written: several answers come from it."""
    with replacing(place) as folder:
        frame.write.mode("append").parquet(uri_of(folder))
    return read_written(spark, settled(place), frame.schema)
