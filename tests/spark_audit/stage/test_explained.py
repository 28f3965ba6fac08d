"""How the databases go about the audit's queries: by the indexes that were made for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, NullPool, create_engine, text

from consumer.journal.tables import request, run
from spark_audit.stage import journal_sql
from spark_audit.stage.jdbc import POSTGRES, SQLITE
from tests.kit.databases import migrated
from tests.spark_audit.stage.samples import manifest, partition

pytestmark = pytest.mark.timeout(300)

ROWS = 60_000
GROUP = "g"
# A slice of the time in which the rows were claimed, and of the numbers of the runs.
SPAN = (50_000, 51_000)


# By the database itself: 60,000 rows from here take ten times as long.
_NUMBERS = (
    "WITH RECURSIVE numbers(number) AS (SELECT 0 UNION ALL "
    f"SELECT number + 1 FROM numbers WHERE number < {ROWS - 1})"
)
_ROW = {
    "id": "number + 1",
    "group": f"CASE WHEN number % 2 = 1 THEN '{GROUP}' ELSE 'other' END",
    "request_id": "'id-' || number",
    "topic": "'payments'",
    "partition": "0",
    "offset": "number",
    "payload_sha256": f"'{'a' * 64}'",
    "attempt": "1",
    "generation": "1",
    "deadline_at": str(10**9),
    "state": "'SUCCEEDED'",
    "owner": "'host-1-x'",
    "claimed_at": "number",
    "finished_at": "number",
    "outcome": "'FAILED'",
    "by_whom": "'host-1-x'",
}


@pytest.fixture
def journal(journal_url: str) -> Iterator[Connection]:
    """Yield a connection to a journal with rows of two groups, in the order of their claims."""
    migrated(journal_url)
    engine = create_engine(journal_url, poolclass=NullPool)
    with engine.begin() as connection:
        for table in (request, run):
            given = {one.name: _ROW[one.name] for one in table.columns if one.name in _ROW}
            names = ", ".join(f'"{one}"' for one in given)
            values = ", ".join(given.values())
            filled = f"INSERT INTO {table.name} ({names}) {_NUMBERS} SELECT {values} FROM numbers"
            connection.execute(text(filled))
        connection.exec_driver_sql("ANALYZE")
    with engine.connect() as connection:
        yield connection


def _plan(journal: Connection, query: str, predicate: str) -> str:
    kind = journal.dialect.name
    explain = "EXPLAIN" if kind == POSTGRES else "EXPLAIN QUERY PLAN"
    # As JDBC asks it.
    asked = f"{explain} SELECT * FROM ({query}) AS asked WHERE {predicate}"
    return "\n".join(str(tuple(row)) for row in journal.exec_driver_sql(asked))


def test_rows_are_read_by_the_index_of_claims_and_runs_by_their_number(
    journal: Connection,
) -> None:
    kind = journal.dialect.name
    limits = manifest(partition(start=0, end=ROWS), group=GROUP)
    rows = journal_sql.requests_in_range(kind, limits)
    spans = journal_sql.claim_predicates(*SPAN, 2)
    for predicate in (*spans, journal_sql.claimed_since(ROWS - 100)):
        plan = _plan(journal, rows, predicate)
        assert "onceward_request_window" in plan, plan
    runs = journal_sql.runs_in_range(kind, limits, with_allowed_by=True)
    within, _ = journal_sql.run_predicates(*SPAN, 2)
    plan = _plan(journal, runs, within)
    by_number = {POSTGRES: "onceward_run_pkey", SQLITE: "INTEGER PRIMARY KEY"}
    assert by_number[kind] in plan, plan


def test_requests_that_are_named_are_read_by_their_key(journal: Connection) -> None:
    kind = journal.dialect.name
    (some,) = journal_sql.id_predicates(f"id-{number}" for number in range(1, 100, 2))
    plan = _plan(journal, journal_sql.all_requests(GROUP), some)
    by_key = {POSTGRES: "onceward_request_pkey", SQLITE: "sqlite_autoindex_onceward_request_1"}
    assert by_key[kind] in plan, plan
    limits = manifest(partition(start=0, end=ROWS), group=GROUP)
    runs = journal_sql.runs_in_range(kind, limits, with_allowed_by=True, in_range=False)
    plan = _plan(journal, runs, some)
    assert "onceward_run_request" in plan, plan
