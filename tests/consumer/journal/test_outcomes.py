"""Which requests wait for the record of their outcome, and that each is found until it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from sqlalchemy import text

from consumer.journal import Journal, JournalState, Work
from consumer.journal.open_requests import open_requests
from consumer.journal.owed_rows import OutcomeRows
from consumer.journal.redrive.resolving import PersonDecisions
from consumer.journal.tables import OUTCOME
from consumer.journal.waiting import OwedCursor, OwedRow
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases, closing_all
from tests.consumer.journal.samples import PAST, claim, finish, index_of_open, new_id, refusal

OpenRows = Callable[..., OutcomeRows]

FIRST = OwedCursor()
WANTED = ("payments",)


@pytest.fixture
def wanting(open_journal: OpenJournal) -> Journal:
    """Return the journal of worker `me`, whose handler names an outcome topic."""
    return open_journal(outcome_topics=WANTED)


@pytest.fixture
def open_rows(database: Database, group: str) -> Iterator[OpenRows]:
    """Yield a factory `open_rows(worker_id)`; what it opens is closed afterwards."""
    rows_of = partial(OutcomeRows, database.url, group=group)
    with closing_all(lambda name: rows_of(worker_id=name)) as open_one:
        yield open_one


@pytest.fixture
def rows(open_rows: OpenRows) -> OutcomeRows:
    """Return what worker `me` sees."""
    return open_rows()


def end(journal: Journal, state: str = JournalState.SUCCEEDED, **facts: object) -> str:
    """Return the id of a request whose first run has come to this."""
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=state, **facts)]))  # type: ignore[arg-type]
    return name


def found(rows: OutcomeRows, *, of_the_dead: bool = True) -> list[OwedRow]:
    return rows.page(FIRST, topics=WANTED, limit=100, of_the_dead=of_the_dead)


def names(page: list[OwedRow]) -> list[tuple[str, int]]:
    return sorted((one.row.request_id, one.row.generation) for one in page)


def test_what_has_ended_waits_and_nothing_else(wanting: Journal, rows: OutcomeRows) -> None:
    wanting.apply(Work(claims=[claim(new_id())]))
    for state in (JournalState.IN_DOUBT, JournalState.RETRYING):
        end(wanting, state)
    end(wanting, JournalState.FAILED, resend=True)
    ended = [
        end(wanting, state)
        for state in (JournalState.SUCCEEDED, JournalState.FAILED, JournalState.SKIPPED)
    ]
    late, place = new_id(), "payments-3-1099511627776-5"
    wanting.apply(Work(claims=[claim(late, deadline_at=PAST)], refusals=[refusal(place)]))
    wanted = [*ended, late, place]
    assert names(found(rows)) == sorted((one, 1) for one in wanted)
    ((topic, count, oldest_ms, mine),) = rows.waiting()
    assert (topic, count, mine) == ("payments", 5, 5)
    assert 0 <= oldest_ms < 60_000


def test_of_topics_whose_outcomes_nobody_wants_nothing_waits(
    journal: Journal, open_journal: OpenJournal, rows: OutcomeRows, database: Database
) -> None:
    end(journal)
    journal.apply(Work(refusals=[refusal("payments-3-1099511627776-5")]))
    other = open_journal(outcome_topics=["orders"])
    end(other)
    other.apply(Work(refusals=[refusal("payments-3-1099511627776-6")]))
    assert found(rows) == [] and rows.waiting() == []
    column = database.query("SELECT DISTINCT outcome_generation FROM onceward_request")
    assert column == [{"outcome_generation": None}]


def test_what_has_its_record_waits_no_longer(wanting: Journal, rows: OutcomeRows) -> None:
    written, left = end(wanting), end(wanting)
    rows.close_case([(written, 1), (written, 1), ("unknown", 1)])
    assert names(found(rows)) == [(left, 1)]
    rows.close_case([])


def test_a_request_that_is_reopened_waits_again_with_its_next_end(
    wanting: Journal, rows: OutcomeRows, database: Database
) -> None:
    name = end(wanting, JournalState.FAILED)
    rows.close_case([(name, 1)])
    # As a redrive leaves it.
    database.change("UPDATE onceward_request SET resend = 1")
    assert found(rows) == []
    wanting.apply(Work(claims=[claim(name, attempt=2)]))
    assert found(rows) == []
    wanting.apply(Work(finishes=[finish(name, 2)]))
    assert names(found(rows)) == [(name, 2)]


def test_a_record_of_a_run_that_was_followed_by_another_closes_nothing(
    wanting: Journal, rows: OutcomeRows
) -> None:
    name = end(wanting, JournalState.FAILED, resend=True)
    wanting.apply(Work(claims=[claim(name, attempt=2)]))
    wanting.apply(Work(finishes=[finish(name, 2)]))
    rows.close_case([(name, 1)])
    assert names(found(rows)) == [(name, 2)]


def test_a_failure_that_a_resend_may_help_has_ended_with_its_deadline(
    wanting: Journal, rows: OutcomeRows, database: Database
) -> None:
    name = end(wanting, JournalState.FAILED, resend=True)
    assert found(rows) == [] and rows.waiting() == []
    database.change("UPDATE onceward_request SET deadline_at = :past", past=PAST)
    assert names(found(rows)) == [(name, 1)]
    assert [one.requests for one in rows.waiting()] == [1]


def test_a_doubt_waits_from_its_resolution_on(wanting: Journal, rows: OutcomeRows) -> None:
    name = end(wanting, JournalState.IN_DOUBT)
    assert found(rows) == []
    wanting.apply(Work(finishes=[finish(name)]))  # the call came back after all
    assert names(found(rows)) == [(name, 1)]


def test_a_doubt_that_a_person_has_resolved_waits_too(
    wanting: Journal, rows: OutcomeRows, database: Database, group: str
) -> None:
    name = end(wanting, JournalState.IN_DOUBT)
    decisions = PersonDecisions(database.url, group=group)
    decisions.resolve(name, has_succeeded=True, result="5", code=None, reason="asked", by="me")
    decisions.close()
    (found_one,) = found(rows)
    assert (found_one.row.request_id, found_one.row.result) == (name, "5")


def test_the_outcomes_of_a_living_worker_are_its_own_business(
    wanting: Journal, open_rows: OpenRows, open_leases: OpenLeases
) -> None:
    peer = open_rows("peer")
    lease = open_leases("me")
    lease.register(60)
    name = end(wanting)
    assert [(one.requests, one.mine) for one in peer.waiting()] == [(1, 0)]
    assert found(peer) == []
    lease.release()
    assert found(peer, of_the_dead=False) == []
    assert names(found(peer)) == [(name, 1)]


def test_of_several_workers_one_looks_for_the_dead_at_a_time(open_rows: OpenRows) -> None:
    workers = [open_rows(name) for name in ("a", "b", "c")]
    assert [one.take_turn(60_000) for one in workers] == [True, False, False]


def test_what_still_waits_is_not_pruned(
    wanting: Journal, rows: OutcomeRows, database: Database
) -> None:
    waits, written, unwanted = end(wanting), end(wanting), end(wanting)
    rows.close_case([(written, 1)])
    old = "UPDATE onceward_request SET deadline_at = 1, finished_at = 1"
    database.change(old)
    drop = "UPDATE onceward_request SET outcome_generation = NULL WHERE request_id = :name"
    database.change(drop, name=unwanted)
    assert wanting.prune(1000, 100).requests == 2
    assert names(found(rows)) == [(waits, 1)]


def test_what_waits_is_found_by_its_own_index(
    wanting: Journal, rows: OutcomeRows, database: Database
) -> None:
    end(wanting)
    explain = {"sqlite": "EXPLAIN QUERY PLAN", "postgresql": "EXPLAIN"}
    name = database.engine.dialect.name
    with database.engine.connect() as connection:
        if name == "postgresql":
            connection.execute(text("SET enable_seqscan = off"))
        query = (
            f'SELECT topic, count(*) FROM {open_requests(name).name} WHERE "group" = :g '
            f"AND {OUTCOME} AND (state <> 'FAILED' OR resend = 0 OR deadline_at <= 5) "
            "GROUP BY topic"
        )
        plan = connection.execute(text(f"{explain[name]} {query}"), {"g": "g"}).all()
    assert index_of_open("outcome", name) in str(plan)
