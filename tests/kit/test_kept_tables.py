"""A database that keeps its tables is as good as a new one for the next test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from tests.kit.databases import ReusedDatabase, migrated
from tests.kit.kept_tables import SCHEMA
from tests.stack import Servers
from tests.stack.postgres import dsn


@pytest.fixture
def database(servers: Servers) -> Iterator[ReusedDatabase]:
    """Yield one whose tables are kept from here on."""
    with closing(ReusedDatabase(servers.postgres)) as reused:
        # The first is made by `migrate`, the second by what that has sent; that one is kept.
        for _ in range(2):
            migrated(reused.empty())
        yield reused


def asked(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn(url)) as session:
        return session.execute(query.encode()).fetchall()


def told(url: str, statement: str) -> None:
    with psycopg.connect(dsn(url)) as session:
        session.execute(statement.encode())


def tables(url: str) -> dict[str, object]:
    """Return the tables in `public`, by their names."""
    query = "SELECT relname, oid FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    return {str(name): number for name, number in asked(url, f"{query} AND relkind = 'r'")}


def test_the_same_tables_come_back_empty_with_ids_from_1_and_another_journal(
    database: ReusedDatabase,
) -> None:
    url = database.empty()
    assert tables(url) == {}
    migrated(url)
    before, meta = tables(url), asked(url, "SELECT * FROM onceward_meta ORDER BY name")
    told(url, "INSERT INTO onceward_meta VALUES ('of_a_test', 'x')")
    told(url, "SELECT nextval('onceward_run_id_seq'), nextval('onceward_run_id_seq')")
    told(url, "UPDATE onceward_meta SET value = '1' WHERE name = 'schema_version'")
    told(url, "DELETE FROM onceward_alembic_version")

    assert database.empty() == url
    assert tables(url) == {}
    migrated(url)
    assert tables(url) == before
    assert asked(url, "SELECT count(*) FROM onceward_alembic_version") == [(1,)]
    again = asked(url, "SELECT * FROM onceward_meta ORDER BY name")
    assert [name for name, _ in again] == [name for name, _ in meta]
    assert [one for one in again if one in meta] == [("schema_version", meta[1][1])]
    assert asked(url, "SELECT nextval('onceward_run_id_seq')") == [(1,)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE onceward_request ADD COLUMN more text",
        "ALTER TABLE onceward_request ALTER COLUMN state SET DEFAULT 'x'",
        "ALTER TABLE onceward_request SET (fillfactor = 50)",
        "CREATE INDEX of_a_test ON onceward_request (state)",
        "DROP TABLE onceward_pause",
        "GRANT SELECT ON onceward_request TO PUBLIC",
        "GRANT CREATE ON SCHEMA public TO PUBLIC",
        "CREATE SCHEMA of_a_test",
        "CREATE FUNCTION of_a_test() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "ANALYZE onceward_meta",
    ],
)
def test_after_a_change_of_more_than_rows_they_are_made_again(
    database: ReusedDatabase, change: str
) -> None:
    url = database.empty()
    migrated(url)
    before = tables(url)
    told(url, change)
    url = database.empty()
    assert (
        asked(url, f"SELECT 1 FROM pg_namespace WHERE nspname IN ('{SCHEMA}', 'of_a_test')") == []
    )
    migrated(url)
    assert not {*before.values()} & {*tables(url).values()}
    assert tables(url).keys() == before.keys()


def test_a_database_that_a_test_has_prepared_gets_tables_of_its_own(
    database: ReusedDatabase,
) -> None:
    url = database.empty()
    told(url, "GRANT CREATE ON SCHEMA public TO PUBLIC")
    migrated(url)
    (rights,) = asked(url, "SELECT nspacl::text FROM pg_namespace WHERE nspname = 'public'")
    assert "=UC/" in str(rights[0])
    assert "onceward_request" in tables(url)
