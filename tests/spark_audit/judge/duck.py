"""DuckDB as a second judge: the manifest as tables, the snapshot as views, and `duck.sql`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from spark_audit.stage.manifest import Manifest

SQL = (Path(__file__).parent / "duck.sql").read_text(encoding="utf-8")


@contextmanager
def opened(folder: Path, manifest: Manifest) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection on which `SQL` can be asked.

    Args:
        folder: of the snapshot's Parquet: `records`, `requests`, `runs`.
    """
    with duckdb.connect() as connection:
        for name in ("records", "requests", "runs"):
            connection.execute(
                f"CREATE VIEW {name} AS FROM read_parquet('{folder}/{name}/*.parquet')"
            )
        connection.execute(
            "CREATE TABLE limits (since_ms BIGINT, until_ms BIGINT, frozen_at_ms BIGINT, "
            "journal_read_at_ms BIGINT, grace_ms BIGINT, deadline_ms BIGINT, "
            "reran_since_ms BIGINT, reran_to_ms BIGINT, before_ms BIGINT)"
        )
        connection.execute(
            "INSERT INTO limits VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                manifest.since_ms,
                manifest.until_ms,
                manifest.frozen_at_ms,
                manifest.journal_read_at_ms,
                manifest.grace_ms,
                round(manifest.deadline_s * 1000),
                manifest.reran_since_ms,
                manifest.reran_to_ms,
                manifest.before_ms,
            ],
        )
        connection.execute(
            "CREATE TABLE ranges (kind TEXT, topic TEXT, partition INT, start_offset BIGINT, "
            "end_offset BIGINT, log_end BIGINT, day_first BIGINT);"
            "CREATE TABLE earlier (topic TEXT, partition INT, first BIGINT, after BIGINT);"
            "CREATE TABLE workers (owner TEXT, lease_until BIGINT);"
            "CREATE TABLE carried (request_id TEXT); CREATE TABLE lettered (topic TEXT);"
            "CREATE TABLE forgotten (topic TEXT, partition INT, next_offset BIGINT, "
            "deadline_at BIGINT)"
        )
        for mark in manifest.forgotten:
            connection.execute(
                "INSERT INTO forgotten VALUES (?, ?, ?, ?)",
                [mark.topic, mark.partition, mark.next_offset, mark.deadline_at],
            )
        ends = {(one.topic, one.partition): one.offset for one in manifest.log_ends}
        firsts = {(one.topic, one.partition): one.first for one in manifest.links}
        connection.executemany(
            "INSERT INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (*limits, ends.get(limits[1:3]), firsts.get(limits[1:3]))
                for one in manifest.partitions
                for limits in [(one.kind, one.topic, one.partition, one.start, one.end)]
            ],
        )
        for link in manifest.links:
            for reach in link.reaches:
                if reach.date < manifest.date:
                    connection.execute(
                        "INSERT INTO earlier VALUES (?, ?, ?, ?)",
                        [link.topic, link.partition, reach.first, reach.after],
                    )
        connection.executemany("INSERT INTO workers VALUES (?, ?)", list(manifest.workers.items()))
        for one in manifest.lettered:
            connection.execute("INSERT INTO lettered VALUES (?)", [one])
        for one in manifest.carried:
            connection.execute("INSERT INTO carried VALUES (?)", [one])
        yield connection
