"""Another engine, and joins in place of one grouping: the same Parquet gives the same findings."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from spark_audit.findings import REQUEST_FINDINGS, Finding
from spark_audit.judge import judge
from spark_audit.manifest import Kind, Manifest
from tests.spark_audit.judge.day import Day
from tests.spark_audit.judge.planted import plant
from tests.spark_audit.judge.test_histories import random_day

SQL = (Path(__file__).parent / "duck.sql").read_text(encoding="utf-8")

Findings = dict[str, set[Finding]]


@pytest.mark.parametrize("day", [plant().day, random_day(11, 2_000)], ids=["planted", "random"])
def test_duckdb_finds_the_same(spark: SparkSession, tmp_path: Path, day: Day) -> None:
    day.write(spark, tmp_path)
    records, requests, runs = (
        spark.read.parquet(str(tmp_path / one)) for one in ("records", "requests", "runs")
    )
    by_spark = {
        row["request_id"]: {finding for finding in REQUEST_FINDINGS if row[finding]}
        for row in judge(spark, records, requests, runs, day.manifest).collect()
    }
    assert by_duckdb(tmp_path, day.manifest) == by_spark


def by_duckdb(folder: Path, manifest: Manifest) -> Findings:
    with duckdb.connect() as connection:
        for name in ("records", "requests", "runs"):
            connection.execute(
                f"CREATE VIEW {name} AS FROM read_parquet('{folder}/{name}/*.parquet')"
            )
        connection.execute(
            "CREATE TABLE limits (since_ms BIGINT, until_ms BIGINT, frozen_at_ms BIGINT, "
            "journal_read_at_ms BIGINT, grace_ms BIGINT, deadline_ms BIGINT, has_dlq BOOLEAN)"
        )
        connection.execute(
            "INSERT INTO limits VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                manifest.since_ms,
                manifest.until_ms,
                manifest.frozen_at_ms,
                manifest.journal_read_at_ms,
                manifest.grace_ms,
                round(manifest.deadline_s * 1000),
                any(one.kind == Kind.DLQ for one in manifest.partitions),
            ],
        )
        connection.execute(
            "CREATE TABLE ranges (kind TEXT, topic TEXT, partition INT, start_offset BIGINT, "
            "end_offset BIGINT); CREATE TABLE workers (owner TEXT, lease_until BIGINT);"
            "CREATE TABLE carried (request_id TEXT)"
        )
        connection.executemany(
            "INSERT INTO ranges VALUES (?, ?, ?, ?, ?)",
            [
                (one.kind, one.topic, one.partition, one.start, one.end)
                for one in manifest.partitions
            ],
        )
        connection.executemany("INSERT INTO workers VALUES (?, ?)", list(manifest.workers.items()))
        for one in manifest.carried:
            connection.execute("INSERT INTO carried VALUES (?)", [one])
        rows = connection.execute(SQL).fetchall()
    return {
        request_id: {finding for finding, flag in zip(REQUEST_FINDINGS, flags, strict=True) if flag}
        for request_id, *flags in rows
    }
