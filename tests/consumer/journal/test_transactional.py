"""Transactions of handlers: their writes and the finish together, or nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from consumer.journal import DataRefused, Journal, JournalState, JournalUnavailable, Work
from consumer.journal.transactional import Transaction, Transactions
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import claim, new_id, park_dead
from tests.kit.databases import migrated

BOOK = text("INSERT INTO seat VALUES (:seat)")


@pytest.fixture
def transactions(database: Database, group: str) -> Iterator[Transactions]:
    """Yield transactions on a journal that has a user's table `seat` beside it."""
    database.change("CREATE TABLE seat (name TEXT PRIMARY KEY)")
    opened = Transactions(database.url, group, "me")
    yield opened
    opened.close()


@pytest.fixture
def name(journal: Journal) -> str:
    """Return the id of a claimed request."""
    request_id = new_id()
    journal.apply(Work(claims=[claim(request_id, effect_kind="transactional")]))
    return request_id


def succeed(tx: Transaction, name: str, generation: int = 1, result: str = '"ok"') -> bool:
    return tx.finish(name, generation, JournalState.SUCCEEDED, None, None, result, False)


def seats(database: Database) -> list[str]:
    return [row["name"] for row in database.query("SELECT name FROM seat ORDER BY name")]


def test_the_handlers_writes_are_committed_with_its_finish(
    transactions: Transactions, database: Database, journal: Journal, name: str
) -> None:
    with transactions.begin() as tx:
        tx.connection.execute(BOOK, {"seat": "1A"})
        assert succeed(tx, name)
    assert seats(database) == ["1A"]
    (row,) = journal.unpublished(10, 0)
    assert (row.state, row.result, row.resend) == (JournalState.SUCCEEDED, '"ok"', False)
    assert row.finished_at is not None


@pytest.mark.parametrize("generation", [0, 2])
def test_a_finish_of_another_generation_rolls_all_back(
    transactions: Transactions, database: Database, name: str, generation: int
) -> None:
    with transactions.begin() as tx:
        tx.connection.execute(BOOK, {"seat": "1A"})
        assert not succeed(tx, name, generation)
    assert seats(database) == []


def test_a_finish_after_the_claim_was_swept_rolls_all_back(
    transactions: Transactions, database: Database, journal: Journal, name: str
) -> None:
    park_dead(journal, 10)
    with transactions.begin() as tx:
        tx.connection.execute(BOOK, {"seat": "1A"})
        assert not succeed(tx, name)
    assert seats(database) == []


def test_leaving_without_a_finish_or_by_an_error_rolls_back(
    transactions: Transactions, database: Database, name: str
) -> None:
    with transactions.begin() as tx:
        tx.connection.execute(BOOK, {"seat": "1A"})
    with pytest.raises(ZeroDivisionError), transactions.begin() as tx:
        tx.connection.execute(BOOK, {"seat": "1B"})
        raise ZeroDivisionError
    assert seats(database) == []
    with transactions.begin() as tx:
        assert succeed(tx, name)


def test_a_write_that_begins_with_a_common_table_expression_is_rolled_back_too(
    transactions: Transactions, database: Database
) -> None:
    with transactions.begin() as tx:
        tx.connection.execute(
            text("WITH chosen(name) AS (SELECT '1A') INSERT INTO seat SELECT name FROM chosen")
        )
    assert seats(database) == []


def test_a_handler_cannot_commit_its_writes_without_the_finish(
    transactions: Transactions, database: Database
) -> None:
    with transactions.begin() as tx:
        tx.connection.execute(BOOK, {"seat": "1A"})
        with pytest.raises(RuntimeError, match="must not commit"):
            tx.connection.commit()
    assert seats(database) == []


def test_a_handler_that_only_reads_keeps_the_worker_from_nothing_and_can_still_finish(
    transactions: Transactions, journal: Journal, name: str
) -> None:
    with transactions.begin() as tx:
        assert tx.connection.execute(text("SELECT count(*) FROM seat")).scalar() == 0
        journal.apply(Work(claims=[claim(new_id())]))
        assert tx.connection.execute(text("SELECT count(*) FROM onceward_request")).scalar() == 2
        assert succeed(tx, name)


def test_threads_have_transactions_of_their_own(
    transactions: Transactions, database: Database, journal: Journal
) -> None:
    names = [new_id() for _ in range(20)]
    journal.apply(Work(claims=[claim(name) for name in names]))
    together = threading.Barrier(len(names))

    def book(name: str) -> bool:
        together.wait(timeout=30)
        with transactions.begin() as tx:
            tx.connection.execute(BOOK, {"seat": name})
            return succeed(tx, name)

    with ThreadPoolExecutor(len(names)) as threads:
        assert all(threads.map(book, names, timeout=60))
    assert seats(database) == sorted(names)


def test_a_result_that_postgresql_refuses_rolls_all_back(postgres_url: str, group: str) -> None:
    migrated(postgres_url)
    journal = Journal(postgres_url, group=group, worker_id="me")
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    transactions = Transactions(postgres_url, group, "me")
    with pytest.raises(DataRefused), transactions.begin() as tx:
        succeed(tx, name, result="\0")
    with transactions.begin() as tx:
        assert succeed(tx, name)
    transactions.close()
    journal.close()


def test_a_database_that_is_away_is_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("away") / "absent" / "journal.db"
    transactions = Transactions(f"sqlite:///{path}", "g", "me")
    with pytest.raises(JournalUnavailable), transactions.begin():
        pass
    transactions.close()


def test_no_worker_without_an_id_has_transactions() -> None:
    with pytest.raises(ValueError, match="without an id"):
        Transactions("sqlite://", "g", "")
