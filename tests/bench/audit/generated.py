"""A day of any size as the snapshot has it, made by DuckDB, with anomalies that are counted.

Ids and payload hashes are random and ids begin with their time, as UUIDv7 do, so that nothing
compresses better than it would. Each request goes to one of eight partitions. Two in a hundred are
sent twice, one in a hundred fails and has its dead letter, one in two hundred has an earlier run.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from spark_audit.findings import Finding
from spark_audit.stage.chain import ChainLink, RunReach
from spark_audit.stage.manifest import FrozenPartition, Manifest, TopicKind
from spark_audit.stage.snapshot import Snapshot

DATE = "2026-01-15"
SINCE_MS = 1_768_435_200_000
DAY_MS = 86_400_000
GRACE_MS = 600_000
DEADLINE_MS = 3_600_000
FROZEN_MS = SINCE_MS + DAY_MS + DEADLINE_MS + 2 * GRACE_MS
TOPIC = "payments"
GROUP = "bench"
PARTITIONS = 8
# Of each kind of anomaly there are so many, whatever the size of the day.
PLANTED = 25
# Far from each other and from the first request, in any day of more than 10,000.
_FIRST = 1_000
_STEP = 97

# By kind, the rest of `(i - _FIRST) / _STEP` divided by their number.
_KINDS = (Finding.LOST, Finding.RAN_TWICE, Finding.IN_DOUBT, Finding.STUCK, Finding.LATE)

_BASE = f"""
CREATE TABLE base AS SELECT
    i,
    i % {PARTITIONS} AS partition,
    i // {PARTITIONS} AS place,
    {SINCE_MS} + (i * {DAY_MS}.0 / $requests)::BIGINT AS sent_at,
    CASE WHEN i >= {_FIRST} AND (i - {_FIRST}) % {_STEP} = 0
        AND (i - {_FIRST}) // {_STEP} < {PLANTED * len(_KINDS)}
        THEN (i - {_FIRST}) // {_STEP} % {len(_KINDS)} ELSE -1 END AS planted,
    hash(i) % 1000 AS chance
FROM range($requests) AS numbers (i);
CREATE MACRO id_of(i, sent_at) AS concat(
    substr(printf('%012x', sent_at), 1, 8), '-', substr(printf('%012x', sent_at), 9, 4), '-7',
    substr(md5(i::TEXT), 1, 3), '-', substr(md5(i::TEXT), 4, 4), '-', substr(md5(i::TEXT), 8, 12)
);
"""

# Each partition holds its requests first and what was sent again after them, as a log would.
_RECORDS = f"""
SELECT
    'request' AS kind, '{TOPIC}' AS topic, partition::INT AS partition,
    place::BIGINT AS "offset", sent_at AS timestamp_ms, id_of(i, sent_at) AS request_id,
    1::BIGINT AS attempt, sent_at + {DEADLINE_MS} AS deadline_at,
    sha256(i::TEXT) AS payload_sha256, false AS is_malformed, true AS is_committed,
    true AS in_window, {FROZEN_MS} AS arrived_by_ms,
    NULL::TEXT AS reason, NULL::TEXT AS original_topic,
    NULL::INT AS original_partition, NULL::BIGINT AS original_offset
FROM base WHERE partition = $partition
UNION ALL
SELECT
    'request', '{TOPIC}', partition::INT,
    ($requests // {PARTITIONS} + row_number() OVER (ORDER BY i) - 1)::BIGINT,
    least(sent_at + 30000, {SINCE_MS + DAY_MS - 1}), id_of(i, sent_at), 2,
    sent_at + {DEADLINE_MS}, sha256(i::TEXT), false, true, true, {FROZEN_MS}, NULL, NULL, NULL, NULL
FROM base WHERE partition = $partition AND chance < 20 AND planted < 0
"""

_LETTERS = f"""
SELECT
    'dlq' AS kind, '{TOPIC}.{GROUP}.dlq' AS topic, 0 AS partition,
    (row_number() OVER (ORDER BY i) - 1)::BIGINT AS "offset", sent_at + 2000 AS timestamp_ms,
    id_of(i, sent_at) AS request_id, 1::BIGINT AS attempt, sent_at + {DEADLINE_MS} AS deadline_at,
    sha256(i::TEXT) AS payload_sha256, false AS is_malformed, false AS is_committed,
    true AS in_window, {FROZEN_MS} AS arrived_by_ms,
    'REJECTED' AS reason, '{TOPIC}' AS original_topic,
    partition::INT AS original_partition, place::BIGINT AS original_offset
FROM base WHERE chance >= 500 AND chance < 510 AND planted < 0
"""

_REQUESTS = f"""
SELECT
    id_of(i, sent_at) AS request_id, '{TOPIC}' AS topic, partition::INT AS partition,
    place::BIGINT AS "offset", sha256(i::TEXT) AS payload_sha256, 1::BIGINT AS attempt,
    CASE WHEN chance < 5 OR planted = 1 THEN 2 ELSE 1 END::BIGINT AS generation,
    'external' AS effect_kind, sent_at + 20 AS effect_at, sent_at + {DEADLINE_MS} AS deadline_at,
    CASE WHEN planted = 2 THEN 'IN_DOUBT' WHEN planted = 3 THEN 'CLAIMED'
        WHEN planted < 0 AND chance >= 500 AND chance < 510 THEN 'FAILED'
        ELSE 'SUCCEEDED' END AS state,
    concat('host-', i % 16, '-4711-8f3c') AS owner, sent_at + 20 AS claimed_at,
    NULL::BIGINT AS due_at,
    CASE WHEN planted = 3 THEN NULL WHEN planted = 4 THEN sent_at + {DEADLINE_MS + 5000}
        ELSE sent_at + 20 + (i * 7919 % 1500) END AS finished_at,
    CASE WHEN planted < 0 AND chance >= 500 AND chance < 510
        THEN concat('CODE_', i % 12) END AS code,
    NULL::TEXT AS message, false AS resend, sent_at + 3000 AS published_at,
    CASE WHEN planted < 0 AND chance >= 500 AND chance < 510
        THEN sent_at + 2500 END AS dead_letter_at,
    0::INT AS voids
FROM base WHERE planted <> 0
"""

_RUNS = f"""
SELECT
    id_of(i, sent_at) AS request_id, 1::BIGINT AS generation, 1::BIGINT AS attempt,
    concat('host-', i % 16, '-4711-8f3c') AS owner, '{TOPIC}' AS topic,
    partition::INT AS partition, place::BIGINT AS "offset", sent_at + 10 AS claimed_at,
    CASE WHEN planted = 1 THEN sent_at + 10 END AS effect_at, 'external' AS effect_kind,
    sent_at + 15 AS ended_at,
    CASE WHEN planted = 1 THEN 'SUCCEEDED' ELSE 'RETRYING' END AS outcome,
    'host-1-4711-8f3c' AS by_whom, CASE WHEN planted = 1 THEN NULL ELSE 'EXCLUDED' END AS allowed_by
FROM base WHERE planted = 1 OR (chance < 5 AND planted < 0)
"""


def generate(output: Path, requests: int) -> dict[str, int]:
    """Write the snapshot of `DATE`; return how many of each finding the audit must name.

    Args:
        output: `[audit] output`.
        requests: a multiple of `PARTITIONS`, so that no offset is missing.
    """
    snapshot = Snapshot.of(output, DATE)
    for folder in (snapshot.records, snapshot.requests, snapshot.runs):
        folder.mkdir(parents=True)
    with duckdb.connect() as connection:
        for statement in _BASE.split(";"):
            # It refuses a parameter that a statement does not use.
            given = {"requests": requests} if "$requests" in statement else None
            connection.execute(statement, given)
        for number in range(PARTITIONS):
            given = {"requests": requests, "partition": number}
            _write(connection, _RECORDS, snapshot.records / f"part-{number}.parquet", given)
        _write(connection, _LETTERS, snapshot.records / "part-dlq.parquet")
        _write(connection, _REQUESTS, snapshot.requests)
        _write(connection, _RUNS, snapshot.runs / "part-0.parquet")
        ends = connection.execute(
            'SELECT topic, partition, max("offset") + 1 '
            f"FROM '{snapshot.records}/*.parquet' GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        (resent,) = connection.execute(
            "SELECT count(*) FILTER (chance < 20 AND planted < 0) FROM base"
        ).fetchall()[0]
    _manifest(ends).write(snapshot.manifest)
    snapshot.complete()
    return {**{str(kind): PLANTED for kind in _KINDS}, str(Finding.RESENT): resent}


def lost_ids(output: Path) -> list[str]:
    """Return the ids that were planted as lost."""
    snapshot = Snapshot.of(output, DATE)
    rows = duckdb.sql(
        f"SELECT request_id FROM '{snapshot.records}/part-?.parquet' "
        f"ANTI JOIN '{snapshot.requests}/*.parquet' USING (request_id)"
    ).fetchall()
    return [request_id for (request_id,) in rows]


def _write(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    target: Path,
    given: dict[str, int] | None = None,
) -> None:
    # Several files where it is a folder, as Spark leaves them.
    several = "" if target.suffix else ", PER_THREAD_OUTPUT true, OVERWRITE_OR_IGNORE true"
    connection.execute(
        f"COPY ({query}) TO '{target}' (FORMAT parquet, COMPRESSION snappy{several})", given
    )


def _manifest(ends: list[tuple[str, int, int]]) -> Manifest:
    kinds = {TOPIC: TopicKind.REQUEST}
    places = [
        FrozenPartition(kinds.get(topic, TopicKind.DLQ), topic, number, 0, 0, end, end)
        for topic, number, end in ends
    ]
    return Manifest(
        date=DATE,
        since_ms=SINCE_MS,
        until_ms=SINCE_MS + DAY_MS,
        frozen_at_ms=FROZEN_MS,
        journal_read_at_ms=FROZEN_MS + GRACE_MS,
        group=GROUP,
        grace_ms=GRACE_MS,
        deadline_s=DEADLINE_MS / 1000,
        partitions=tuple(places),
        links=tuple(
            ChainLink(
                topic, number, "", 0, (RunReach(1, DATE, 0, end, SINCE_MS + DAY_MS, FROZEN_MS, 0),)
            )
            for topic, number, end in ends
        ),
        lettered=(TOPIC,),
        workers={f"host-{number}-4711-8f3c": SINCE_MS for number in range(16)},
    )
