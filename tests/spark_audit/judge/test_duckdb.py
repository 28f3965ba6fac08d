"""Another engine, and joins in place of one grouping: the same Parquet gives the same findings."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.judge.judge import judge
from spark_audit.stage.manifest import Manifest
from tests.spark_audit.judge import duck
from tests.spark_audit.judge.day import ALLOWED, Day
from tests.spark_audit.judge.planted import plant
from tests.spark_audit.judge.test_histories import random_day

# By id: what was found, and whether a resend was needed.
Judged = dict[str, tuple[set[Finding], bool | None]]


@pytest.mark.parametrize(
    "day",
    [
        pytest.param(plant().day, id="planted", marks=pytest.mark.long),
        pytest.param(random_day(11, 2_000), id="random"),
    ],
)
def test_duckdb_finds_the_same(spark: SparkSession, tmp_path: Path, day: Day) -> None:
    day.write(spark, tmp_path)
    records, requests, runs = (
        spark.read.parquet(str(tmp_path / one)) for one in ("records", "requests", "runs")
    )
    by_spark = {
        row["request_id"]: (
            {finding for finding in REQUEST_FINDINGS if row[finding]},
            row["resend_needed"],
        )
        for row in judge(spark, records, requests, runs, day.manifest, ALLOWED).collect()
    }
    assert by_duckdb(tmp_path, day.manifest) == by_spark


def by_duckdb(folder: Path, manifest: Manifest) -> Judged:
    with duck.opened(folder, manifest) as connection:
        rows = connection.execute(duck.SQL).fetchall()
    return {
        request_id: (
            {finding for finding, flag in zip(REQUEST_FINDINGS, flags, strict=True) if flag},
            needed,
        )
        for request_id, *flags, needed in rows
    }
