"""The queries that read the journal, for PostgreSQL and SQLite.

They are text, since Spark hands a query to JDBC as it is: every value in them goes through
`literal`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise

from spark_audit.stage.jdbc import POSTGRES, literal
from spark_audit.stage.manifest import FrozenPartition, Manifest, TopicKind

# Names and types of the columns that are read; SQLite's own types say little, so none is guessed.
REQUEST_SCHEMA = (
    "request_id STRING, topic STRING, partition INT, offset BIGINT, payload_sha256 STRING, "
    "attempt BIGINT, generation BIGINT, effect_kind STRING, effect_at BIGINT, deadline_at BIGINT, "
    "state STRING, owner STRING, claimed_at BIGINT, due_at BIGINT, finished_at BIGINT, "
    "code STRING, message STRING, resend INT, published_at BIGINT, dead_letter_at BIGINT, "
    "voids INT"
)
RUN_SCHEMA = (
    "request_id STRING, generation BIGINT, attempt BIGINT, owner STRING, topic STRING, "
    "partition INT, offset BIGINT, claimed_at BIGINT, effect_at BIGINT, effect_kind STRING, "
    "ended_at BIGINT, "
    "outcome STRING, by_whom STRING, allowed_by STRING"
)

RUN = "run"
IDS_AT_ONCE = 1000
_JULIAN_EPOCH_MS = 210_866_760_000_000


def names_of(schema: str) -> list[str]:
    """Return the columns of a schema.

    >>> names_of("a INT, b STRING")
    ['a', 'b']
    """
    return [one.split()[0] for one in schema.split(", ")]


def all_requests(group: str) -> str:
    """Return the query of every row of a group."""
    return (
        f"SELECT {_columns('r', REQUEST_SCHEMA)} "
        f'FROM onceward_request AS r WHERE r."group" = {literal(group)}'
    )


def requests_in_range(kind: str, manifest: Manifest) -> str:
    """Return the query of the rows whose record lies at or after its partition's start.

    So do those whose partition Kafka does not know while it knows the topic: they name a record
    that cannot be. Only those of the window, since a topic made anew may have fewer partitions.
    And so do those that ran again since the journal was read last, wherever their record lies.

    It is read by `claim_predicates`, each of which is a part of the index of claims.
    """
    partitions = _of_requests(manifest)
    topics = ", ".join(sorted({literal(one.topic) for one in partitions}))
    unknown = (
        f's.column1 IS NULL AND r."topic" IN ({topics}) '
        f'AND r."claimed_at" >= {literal(manifest.since_ms)}'
    )
    wanted = ['r."offset" >= s.column3', unknown]
    if manifest.reran_since_ms:
        wanted.append(
            f's.column1 IS NOT NULL AND r."generation" > 1 '
            f'AND r."claimed_at" >= {literal(manifest.reran_since_ms)}'
        )
    return (
        f"SELECT {_columns('r', REQUEST_SCHEMA)} "
        f"FROM onceward_request AS r {_starts('r', partitions)} "
        f"WHERE {_of_group('r', kind, manifest.group)} "
        f"AND (({') OR ('.join(wanted)}))"
    )


def claim_predicates(since_ms: int, until_ms: int, slices: int) -> list[str]:
    """Return conditions that together cover every row that was claimed in a span of time, and
    every one that was never claimed and did not end before it; each row once.

    Args:
        since_ms, until_ms: epoch ms, half open.
    """
    claimed, ended = '"claimed_at"', '"finished_at"'
    bounds = _cut(since_ms, until_ms, slices)
    return [
        *(f"{claimed} >= {first} AND {claimed} < {after}" for first, after in bounds),
        f"{claimed} IS NULL AND ({ended} IS NULL OR {ended} >= {literal(since_ms)})",
    ]


def claimed_since(at_ms: int) -> str:
    """Return the condition for rows that were claimed from a time (epoch ms) on."""
    return f'"claimed_at" >= {literal(at_ms)}'


def runs_in_range(
    kind: str, manifest: Manifest, *, with_allowed_by: bool, in_range: bool = True
) -> str:
    """Return the query of the runs whose own record lies at or after its partition's start.

    Args:
        with_allowed_by: whether the table has that column.
        in_range: False for exactly those runs that the other query leaves out; it is asked by id.
    """
    # CASE, so that a partition without a start counts as outside: NOT of null would be null.
    condition = 'CASE WHEN h."offset" >= s.column3 THEN 1 ELSE 0 END'
    names = names_of(RUN_SCHEMA)[:-1]
    allowed_by = 'h."allowed_by"' if with_allowed_by else 'CAST(NULL AS TEXT) AS "allowed_by"'
    of_group = _of_group("h", kind if in_range else POSTGRES, manifest.group)
    return (
        f'SELECT {_columns("h", names)}, {allowed_by}, h."id" AS "{RUN}" '
        f"FROM onceward_run AS h {_starts('h', _of_requests(manifest))} "
        f"WHERE {of_group} AND {condition} = {int(in_range)}"
    )


def run_predicates(first: int, last: int, slices: int) -> list[str]:
    """Return conditions that cover every run once, also those that come meanwhile.

    Args:
        first, last: the numbers of runs there are.
    """
    *before, (begin, _) = _cut(first, last + 1, slices)
    within = [f'"{RUN}" >= {one} AND "{RUN}" < {after}' for one, after in before]
    return [*within, f'"{RUN}" >= {begin}']


RUN_BOUNDS = 'SELECT coalesce(min("id"), 0), coalesce(max("id"), 0) FROM onceward_run'
# How far pruning has forgotten each partition of a group.
FORGOTTEN = (
    'SELECT "topic", "partition", "next_offset", "deadline_at" FROM onceward_forgotten '
    'WHERE "group" = :group'
)


def leases(kind: str) -> str:
    """Return the query of a group's leases with the database's clock; one row without a lease."""
    now_ms = (
        "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)"
        if kind == POSTGRES
        else f"(CAST(round(julianday('now') * 86400000.0) AS INTEGER) - {_JULIAN_EPOCH_MS})"
    )
    return (
        f'SELECT w."worker_id", w."lease_until", {now_ms} AS "now_ms" '
        "FROM (SELECT 1 AS one) AS always "
        'LEFT JOIN onceward_worker AS w ON w."group" = :group'
    )


def id_predicates(ids: Iterable[str]) -> list[str]:
    """Return conditions that cover these ids, each id once."""
    return [
        f'"request_id" IN ({", ".join(map(literal, some))})' for some in _batched(sorted(set(ids)))
    ]


def _columns(table: str, schema: str | Sequence[str]) -> str:
    names = names_of(schema) if isinstance(schema, str) else schema
    return ", ".join(f'{table}."{name}"' for name in names)


def _of_requests(manifest: Manifest) -> list[FrozenPartition]:
    """Return the partitions whose records are requests of the day, sent or set aside.

    Not those of dead letters: a row that names a place there is that of a letter which was given to
    a handler, and the request that failed has a row of its own.
    """
    return [one for one in manifest.partitions if one.kind != TopicKind.DLQ]


def _starts(table: str, partitions: Iterable[FrozenPartition]) -> str:
    """Return the join with a table of the partitions' starts: hashed once, and not a condition of
    hundreds of parts that each row goes through. Both databases call its columns so."""
    rows = ", ".join(
        f"({literal(one.topic)}, {literal(one.partition)}, {literal(one.start)})"
        for one in partitions
    )
    return (
        f"LEFT JOIN (VALUES {rows}) AS s "
        f'ON {table}."topic" = s.column1 AND {table}."partition" = s.column2'
    )


def _of_group(table: str, kind: str, group: str) -> str:
    # SQLite would take the key of the table, which begins with the group, for all of its rows: the
    # sign keeps it from that.
    sign = "" if kind == POSTGRES else "+"
    return f'{sign}{table}."group" = {literal(group)}'


def _cut(first: int, after: int, slices: int) -> list[tuple[int, int]]:
    """Return a span of numbers in slices, as (first, one after the last)."""
    step = max(1, -(-(after - first) // slices))
    return list(pairwise([*range(first, after, step), after]))


def _batched(ids: Sequence[str]) -> Iterator[list[str]]:
    left = iter(ids)
    while some := list(islice(left, IDS_AT_ONCE)):
        yield some
