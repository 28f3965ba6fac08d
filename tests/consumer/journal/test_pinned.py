"""What the guarantee rests on in PostgreSQL is asked for by us, whatever the server's defaults."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text

from consumer.journal import Journal, JournalState, JournalUnavailable, VerdictKind, Work, migrate
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.ordering import lock_keys
from consumer.journal.transactional import Transactions
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import claim, kinds, new_id
from tests.eventually import eventually
from tests.stack.postgres import Postgres, dsn
from tests.stack.restartable import Restartable, restartable

SEATS = text("SELECT count(*) FROM seat")
GROUP = "payments"
# Commits are acknowledged long before they are on disk.
CARELESS = {"synchronous_commit": "off", "wal_writer_delay": "10s"}


@pytest.fixture
def journal_url(postgres_url: str) -> str:
    """Return an empty database whose defaults ask for other things than we do."""
    with psycopg.connect(dsn(postgres_url), autocommit=True) as admin:
        name = sql.Identifier(admin.info.dbname)
        for default in (
            "default_transaction_isolation TO 'repeatable read'",
            "synchronous_commit TO off",
        ):
            words = sql.SQL("ALTER DATABASE {} SET ").format(name) + sql.SQL(default)
            admin.execute(words)
    return postgres_url


def test_two_requests_of_a_key_never_run_together_whatever_the_default_isolation(
    database: Database, open_journal: OpenJournal, group: str
) -> None:
    first, second = (claim(new_id())._replace(order_key="card-1") for _ in range(2))
    later = open_journal("later")
    with ThreadPoolExecutor(1) as pool, database.engine.connect() as earlier:
        lock_keys(earlier, group, [first])
        waiting = pool.submit(later.apply, Work(claims=[second]))
        # Those of this database: other tests wait for locks beside it.
        locks = (
            "SELECT 1 FROM pg_locks WHERE NOT granted AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        eventually(lambda: database.query(locks) != [])
        writer = JournalWriter(connection=earlier, group=group, worker_id="earlier")
        granted = Work(claims=[first]).carry_out(writer, held=set())
        earlier.commit()
        assert kinds(granted) == [VerdictKind.RUN]
        assert kinds(waiting.result()) == [VerdictKind.HELD]


def test_a_handlers_transaction_sees_what_is_committed_meanwhile(
    database: Database, journal: Journal, group: str
) -> None:
    database.change("CREATE TABLE seat (name TEXT)")
    transactions = Transactions(database.url, group, "me")
    with transactions.begin() as tx:
        assert tx.connection.execute(SEATS).scalar() == 0
        database.change("INSERT INTO seat VALUES ('1A')")
        assert tx.connection.execute(SEATS).scalar() == 1
    transactions.close()


def test_what_was_acknowledged_survives_a_crash_of_a_database_that_commits_before_it_writes() -> (
    None
):
    with restartable(lambda: Postgres(settings=CARELESS)) as server, ExitStack() as closing:
        migrate(server.address)
        claimed, finished = new_id(), new_id()
        journal = Journal(server.address, group=GROUP, worker_id="me")
        closing.callback(journal.close)
        transactions = Transactions(server.address, GROUP, "me")
        closing.callback(transactions.close)
        journal.apply(Work(claims=[claim(finished, effect_kind="transactional")]))
        with transactions.begin() as tx:
            # What a handler thinks of its commit is not what the promise rests on.
            tx.connection.execute(text("SET LOCAL synchronous_commit = off"))
            assert tx.finish(finished, 1, JournalState.SUCCEEDED, None, None, None, False)
        crash(server)
        assert states(journal) == {finished: JournalState.SUCCEEDED}
        journal.apply(Work(claims=[claim(claimed)]))
        crash(server)
        assert states(journal) == {finished: JournalState.SUCCEEDED, claimed: JournalState.CLAIMED}


def crash(server: Restartable) -> None:
    with server.down():
        pass


def states(journal: Journal) -> dict[str, str]:
    """Return the state of each request, as soon as the server answers again."""
    found: list[dict[str, str]] = []

    def is_read() -> bool:
        with suppress(JournalUnavailable):
            journal.find_open_requests()
            rows = journal.dead_claims(["payments"], 10) + journal.unpublished(10, 0)
            found.append({row.request_id: row.state for row in rows})
        return found != []

    eventually(is_read)
    return found[0]
