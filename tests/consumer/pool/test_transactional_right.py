"""A right that is taken from the database's user for a while ends no transactional request."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text

from consumer.journal import Claim, Journal, VerdictKind, Work
from consumer.journal.errors import JournalUnavailable
from consumer.pool import Outcome
from consumer.pool.job import PoolSettings
from consumer.pool.outcome import HANDLER_ERROR
from consumer.pool.transactional import TransactionalRuns
from feedback.errors import SecurityKind
from feedback.status import State
from tests.consumer.pool.driving import job
from tests.kit.databases import migrated
from tests.stack import Servers
from tests.stack.postgres import fresh_database

GROUP, PASSWORD = "payments", "of-one-test"
DONE = Outcome(State.SUCCEEDED, result="1")


class Database:
    """A journal with a table of seats, and a user who may do what one test lets it do."""

    def __init__(self, url: str, role: str) -> None:
        migrated(url)
        self._engine = create_engine(url, isolation_level="AUTOCOMMIT")
        self._role = role
        self.url = (
            make_url(url)
            .set(username=role, password=PASSWORD)
            .render_as_string(hide_password=False)
        )
        self._run(f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{PASSWORD}'")
        self._run("CREATE TABLE seat (name TEXT)")
        self._run("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        self.grant("USAGE", "SCHEMA public")
        self._run(f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{role}"')
        self._run(f'GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO "{role}"')

    def grant(self, right: str, table: str) -> None:
        self._run(f'GRANT {right} ON {table} TO "{self._role}"')

    def revoke(self, right: str, table: str) -> None:
        self._run(f'REVOKE {right} ON {table} FROM "{self._role}"')

    def seats(self) -> int:
        with self._engine.connect() as connection:
            return int(connection.execute(text("SELECT count(*) FROM seat")).scalar_one())

    def _run(self, statement: str) -> None:
        with self._engine.connect() as connection:
            connection.execute(text(statement))

    def close(self) -> None:
        self._run(f'DROP OWNED BY "{self._role}"')
        self._run(f'DROP ROLE "{self._role}"')
        self._engine.dispose()


@pytest.fixture
def database(servers: Servers) -> Iterator[Database]:
    name = f"right_{uuid.uuid4().hex}"
    with fresh_database(servers.postgres, name) as url:
        made = Database(url, name)
        yield made
        made.close()


@pytest.fixture
def journal(database: Database) -> Iterator[Journal]:
    with closing(Journal(database.url, group=GROUP, worker_id="w1")) as made:
        yield made


def _claim(journal: Journal) -> None:
    claim = Claim(
        request_id="a1",
        topic="book",
        partition=0,
        offset=1,
        message_key=None,
        payload_sha256="00",
        attempt=1,
        deadline_at=2**52,
        effect_kind="transactional",
    )
    (verdict,) = journal.apply(Work(claims=[claim])).verdicts
    assert verdict.kind is VerdictKind.RUN


def _book(connection: Connection, *, then: Outcome) -> Outcome:
    connection.execute(text("INSERT INTO seat (name) VALUES ('a1')"))
    return then


def _runs(database: Database) -> TransactionalRuns:
    settings = PoolSettings(handlers=(), group=GROUP, journal_url=database.url, worker_id="w1")
    return TransactionalRuns(settings)


def test_a_finish_without_a_right_leaves_nothing_and_is_tried_again(
    database: Database, journal: Journal
) -> None:
    _claim(journal)
    runs = _runs(database)
    book = partial(_book, then=DONE)
    database.revoke("UPDATE", "onceward_request")
    refused = runs.run(job("book", request_id="a1"), book)
    # The worker keeps the claim and dispatches it again: see `of_outcome`.
    assert (refused.unbegun, refused.committed, database.seats()) == (True, False, 0)
    assert "GRANT" in (refused.message or "")
    database.grant("UPDATE", "onceward_request")
    done = runs.run(job("book", request_id="a1"), book)
    assert (done.committed, database.seats()) == (True, 1)


def test_a_right_to_the_schema_that_is_back_when_it_is_asked_for_was_missing_all_the_same(
    database: Database, journal: Journal
) -> None:
    def back(_: object) -> None:
        database.grant("USAGE", "SCHEMA public")

    database.revoke("USAGE", "SCHEMA public")
    with closing(Journal(database.url, group=GROUP, worker_id="w1")) as reader:
        event.listen(Engine, "handle_error", back)
        try:
            with pytest.raises(JournalUnavailable, match="GRANT USAGE ON SCHEMA public"):
                reader.rows(["a1"])
        finally:
            event.remove(Engine, "handle_error", back)
        assert reader.rows(["a1"]) == []


def test_a_finish_without_the_right_to_the_schema_is_tried_again_too(
    database: Database, journal: Journal
) -> None:
    """PostgreSQL says then that the journal's tables are not there."""
    _claim(journal)
    runs = _runs(database)

    def lose(connection: Connection) -> Outcome:
        outcome = _book(connection, then=DONE)
        database.revoke("USAGE", "SCHEMA public")
        return outcome

    refused = runs.run(job("book", request_id="a1"), lose)
    assert (refused.unbegun, refused.committed, database.seats()) == (True, False, 0)
    assert "GRANT USAGE ON SCHEMA public" in (refused.message or "")
    database.grant("USAGE", "SCHEMA public")
    done = runs.run(job("book", request_id="a1"), partial(_book, then=DONE))
    assert (done.committed, database.seats()) == (True, 1)


def test_a_statement_of_the_handlers_own_without_a_right_is_its_own_error(
    database: Database, journal: Journal
) -> None:
    _claim(journal)
    runs = _runs(database)
    database.revoke("INSERT", "seat")
    failed = runs.run(job("book", request_id="a1"), partial(_book, then=DONE))
    assert (failed.state, failed.code, failed.unbegun) == (State.FAILED, HANDLER_ERROR, False)


def test_a_journal_without_a_right_names_table_and_grant_and_is_not_said_to_come_back(
    database: Database, journal: Journal
) -> None:
    database.revoke("INSERT", "onceward_request")
    with pytest.raises(JournalUnavailable) as caught:
        _claim(journal)
    fault = caught.value.fault
    assert fault is not None
    assert (fault.kind, fault.server) == (SecurityKind.RIGHT, "journal")
    assert "GRANT" in str(caught.value) and "ON onceward_request to it" in str(caught.value)
    assert "later" not in str(caught.value)
    database.grant("INSERT", "onceward_request")
    _claim(journal)
