"""A migrated journal, journals on it, and a way to look at its tables from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from sqlalchemy import Engine, NullPool, Select, create_engine, text

from consumer.journal import Journal, Leases
from consumer.journal.group_journal import GroupJournal
from tests.kit.databases import migrated
from tests.kit.open_requests import assert_open_requests_are_those_of_the_journal

OpenJournal = Callable[..., Journal]
OpenLeases = Callable[..., Leases]
Opened = TypeVar("Opened", bound=GroupJournal)


@dataclass(frozen=True)
class Database:
    """The journal's database, as any other program sees it."""

    url: str
    engine: Engine

    def query(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Return the rows of a query, by column."""
        with self.engine.connect() as connection:
            answers = connection.execute(text(sql), parameters)
            return [dict(zip(answers.keys(), row, strict=True)) for row in answers]

    def plan(self, wanted: Select[Any], **given: object) -> str:
        """Return how the database would find these rows where it has an index for them."""
        statement = wanted.params(**given).compile(
            self.engine, compile_kwargs={"render_postcompile": True}
        )
        is_sqlite = self.engine.dialect.name == "sqlite"
        parameters = statement.construct_params()
        known: Any = parameters
        if statement.positional:
            assert statement.positiontup is not None
            known = tuple(parameters[name] for name in statement.positiontup)
        with self.engine.connect() as connection:
            if not is_sqlite:
                connection.execute(text("SET enable_seqscan = off"))
            how = "EXPLAIN QUERY PLAN" if is_sqlite else "EXPLAIN"
            return str(connection.exec_driver_sql(f"{how} {statement}", known).all())

    def change(self, sql: str, **parameters: object) -> None:
        """Run a statement and commit."""
        with self.engine.begin() as connection:
            connection.execute(text(sql), parameters)


@contextmanager
def closing_all(make: Callable[..., Opened]) -> Iterator[Callable[..., Opened]]:
    """Yield a factory `open_one(worker_id="me", ...)`; what it opens is closed afterwards."""
    opened: list[Opened] = []

    def open_one(worker_id: str = "me", **options: Any) -> Opened:
        opened.append(make(worker_id, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def database(journal_url: str) -> Iterator[Database]:
    """Yield the database of a migrated journal."""
    migrated(journal_url)
    # To begin a connection takes PostgreSQL longer than what most tests ask it.
    is_sqlite = journal_url.startswith("sqlite")
    engine = create_engine(
        journal_url, **({"poolclass": NullPool} if is_sqlite else {"pool_pre_ping": True})
    )
    yield Database(journal_url, engine)
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            assert_open_requests_are_those_of_the_journal(connection)
    engine.dispose()


@pytest.fixture
def open_journal(database: Database, group: str) -> Iterator[OpenJournal]:
    """Yield a factory `open_journal(worker_id="me", ...)`; what it opens is closed afterwards."""

    def make(worker_id: str, **options: Any) -> Journal:
        return Journal(worker_id=worker_id, **({"group": group, "url": database.url} | options))

    with closing_all(make) as open_one:
        yield open_one


@pytest.fixture
def journal(open_journal: OpenJournal) -> Journal:
    """Return the journal of worker `me`."""
    return open_journal()


@pytest.fixture
def open_leases(database: Database, group: str) -> Iterator[OpenLeases]:
    """Yield a factory `open_leases(worker_id)`; what it opens is closed afterwards."""
    with closing_all(lambda name: Leases(database.url, group=group, worker_id=name)) as open_one:
        yield open_one


@pytest.fixture
def now_ms_of() -> Callable[[Database], int]:
    """Return a function that reads a database's clock in its own words, in epoch ms."""

    def read(database: Database) -> int:
        if database.engine.dialect.name == "sqlite":
            (row,) = database.query("SELECT strftime('%s', 'now'), strftime('%f', 'now')")
            seconds, fraction = row.values()
            return int(seconds) * 1000 + int(fraction[-3:])
        (row,) = database.query("SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)")
        (milliseconds,) = row.values()
        return int(milliseconds)

    return read
