"""Which failures wait for their dead letters, and that each is found until it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import text

from consumer.journal import Journal, JournalState, Work
from consumer.journal.open_requests import open_requests
from consumer.journal.owed_rows import DeadLetterRows
from consumer.journal.tables import DEAD
from consumer.journal.waiting import OwedCursor, OwedRow
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases, closing_all
from tests.consumer.journal.samples import claim, finish, index_of_open, new_id, refusal

OpenRows = Callable[..., DeadLetterRows]

FIRST = OwedCursor()


@pytest.fixture
def open_rows(database: Database, group: str) -> Iterator[OpenRows]:
    """Yield a factory `open_rows(worker_id)`; what it opens is closed afterwards."""
    rows_of = partial(DeadLetterRows, database.url, group=group)
    with closing_all(lambda name: rows_of(worker_id=name)) as open_one:
        yield open_one


@pytest.fixture
def rows(open_rows: OpenRows) -> DeadLetterRows:
    """Return what worker `me` sees."""
    return open_rows()


def fail(journal: Journal, *, code: str = "REJECTED", resend: bool = False) -> str:
    """Return the id of a request that has failed."""
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(
        Work(finishes=[finish(name, state=JournalState.FAILED, code=code, resend=resend)])
    )
    return name


def found(
    rows: DeadLetterRows, cursor: OwedCursor = FIRST, *, limit: int = 100, of_the_dead: bool = True
) -> list[OwedRow]:
    return rows.page(cursor, topics=["payments"], limit=limit, of_the_dead=of_the_dead)


def names(page: list[OwedRow]) -> list[str]:
    return [one.row.request_id for one in page]


def test_what_failed_for_good_waits_and_nothing_else(
    journal: Journal, rows: DeadLetterRows
) -> None:
    journal.apply(Work(claims=[claim(new_id())]))
    for state in (JournalState.SUCCEEDED, JournalState.IN_DOUBT, JournalState.RETRYING):
        name = new_id()
        journal.apply(Work(claims=[claim(name)]))
        journal.apply(Work(finishes=[finish(name, state=state)]))
    fail(journal, resend=True)
    fail(journal, code="PAYLOAD_GONE")
    failed, place = fail(journal), "payments-3-1099511627776-5"
    journal.apply(Work(refusals=[refusal(place)]))
    assert sorted(names(found(rows))) == sorted([failed, place])
    ((topic, count, oldest_ms, mine),) = rows.waiting()
    assert (topic, count, mine) == ("payments", 2, 2)
    assert 0 <= oldest_ms < 60_000


def test_the_oldest_comes_first_and_pages_go_on_where_the_last_one_ended(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    wanted = [fail(journal) for _ in range(5)]
    # Two of the same moment as well, on either side of a page's end.
    for name, at in zip(wanted, (30, 10, 20, 20, 40), strict=True):
        change = "UPDATE onceward_request SET finished_at = :at WHERE request_id = :name"
        database.change(change, at=at, name=name)
    in_order = [wanted[number] for number in (1, 2, 3, 0, 4)]
    seen, cursor = [], OwedCursor()
    while page := found(rows, cursor, limit=2):
        seen += names(page)
        cursor = OwedCursor(page[-1].row.finished_at or 0, page[-1].row.request_id)
    assert seen == in_order


def test_what_has_its_letter_waits_no_longer(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    written, left = fail(journal), fail(journal)
    rows.close_case([(written, 1), (written, 1), ("unknown", 1)])
    assert names(found(rows)) == [left]
    ((at, finished_at),) = (
        row.values()
        for row in database.query(
            "SELECT dead_letter_at, finished_at FROM onceward_request WHERE request_id = :name",
            name=written,
        )
    )
    assert at >= finished_at
    rows.close_case([])


def test_a_letter_of_a_run_that_was_followed_by_another_closes_nothing(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    name = fail(journal, resend=True)
    journal.apply(Work(claims=[claim(name, attempt=2)]))
    journal.apply(Work(finishes=[finish(name, 2, JournalState.FAILED, code="REJECTED")]))
    rows.close_case([(name, 1)])
    assert names(found(rows)) == [name]
    rows.close_case([(name, 2)])
    assert found(rows) == []


@pytest.mark.parametrize("state", ["SUCCEEDED", "CLAIMED", "IN_DOUBT"])
def test_only_a_failure_is_closed(
    journal: Journal, rows: DeadLetterRows, database: Database, state: str
) -> None:
    name = fail(journal)
    database.change("UPDATE onceward_request SET state = :state", state=state)
    rows.close_case([(name, 1)])
    assert database.query("SELECT dead_letter_at FROM onceward_request") == [
        {"dead_letter_at": None}
    ]


def test_one_that_a_resend_may_reopen_is_not_closed(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    name = fail(journal, resend=True)
    rows.close_case([(name, 1)])
    assert database.query("SELECT dead_letter_at FROM onceward_request") == [
        {"dead_letter_at": None}
    ]


def test_a_failure_knows_when_its_first_run_ended(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    once, name = fail(journal), fail(journal, resend=True)
    for attempt in (2, 3):
        journal.apply(Work(claims=[claim(name, attempt=attempt)]))
        resend = attempt == 2
        journal.apply(
            Work(finishes=[finish(name, attempt, JournalState.FAILED, code="X", resend=resend)])
        )
    ended = database.query("SELECT min(ended_at) AS first FROM onceward_run")
    first = {one.row.request_id: one.first_failed_at for one in found(rows)}
    assert first == {once: None, name: ended[0]["first"]}


def test_the_letters_of_a_living_worker_are_its_own_business(
    journal: Journal, open_rows: OpenRows, open_leases: OpenLeases
) -> None:
    peer = open_rows("peer")
    lease = open_leases("me")
    lease.register(60)
    name = fail(journal)
    assert [(one.requests, one.mine) for one in peer.waiting()] == [(1, 0)]
    assert found(peer) == []
    lease.release()
    assert found(peer, of_the_dead=False) == []
    assert names(found(peer)) == [name]


def test_of_several_workers_one_looks_for_the_dead_at_a_time(open_rows: OpenRows) -> None:
    workers = [open_rows(name) for name in ("a", "b", "c")]
    assert [one.take_turn(60_000) for one in workers] == [True, False, False]
    assert workers[2].take_turn(0)


def test_other_topics_and_other_groups_are_left_alone(
    journal: Journal, open_journal: OpenJournal, rows: DeadLetterRows
) -> None:
    fail(journal)
    fail(open_journal(group="another"))
    assert rows.page(OwedCursor(), topics=["orders"], limit=10, of_the_dead=True) == []
    assert len(found(rows)) == 1


def test_a_reopened_failure_waits_again_when_it_fails_again(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    name = fail(journal)
    rows.close_case([(name, 1)])
    # As a redrive leaves it.
    database.change("UPDATE onceward_request SET resend = 1")
    journal.apply(Work(claims=[claim(name, attempt=2)]))
    journal.apply(Work(finishes=[finish(name, 2, JournalState.FAILED, code="REJECTED")]))
    assert names(found(rows)) == [name]


def test_a_reopened_failure_waits_again_when_it_is_refused(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    name = fail(journal)
    rows.close_case([(name, 1)])
    database.change("UPDATE onceward_request SET resend = 1")
    journal.apply(Work(refusals=[refusal(name, attempt=2)]))
    ((row, _),) = found(rows)
    assert (row.request_id, row.code, row.generation) == (name, "INVALID_MESSAGE", 2)


def test_a_failure_whose_resend_came_too_late_waits_for_its_letter(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    name = fail(journal, code="BANK_BUSY", resend=True)
    database.change("UPDATE onceward_request SET deadline_at = 1")
    assert found(rows) == []
    journal.apply(Work(claims=[claim(name, attempt=2)]))
    ((row, _),) = found(rows)
    assert (row.request_id, row.code, row.generation) == (name, "BANK_BUSY", 1)


def test_what_waits_is_found_by_its_own_index(
    journal: Journal, rows: DeadLetterRows, database: Database
) -> None:
    fail(journal)
    explain = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN"}
    name = database.engine.dialect.name
    with database.engine.connect() as connection:
        if name == "postgresql":
            connection.execute(text("SET enable_seqscan = off"))
        query = (
            f'SELECT topic, count(*) FROM {open_requests(name).name} WHERE "group" = :g '
            f"AND {DEAD} GROUP BY topic"
        )
        plan = connection.execute(text(f"{explain[name]} {query}"), {"g": "g"}).all()
    assert index_of_open("dead", name) in str(plan)
