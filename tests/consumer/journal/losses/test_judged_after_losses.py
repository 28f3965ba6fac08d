"""What the audit says of runs once the database has lost commits, and they were written again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import insert

from consumer.journal import (
    Claim,
    EffectMark,
    Journal,
    JournalState,
    OwnRun,
    TakeoverKind,
    ToldRun,
    Work,
)
from consumer.journal.tables import request, run
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import claim, finish, new_id, row_of, takeover
from tests.eventually import eventually
from tests.spark_audit.judge.effects import effect_runs

Tick = Callable[[], None]
FOUND = "SELECT * FROM onceward_request WHERE request_id = :name"
KEPT = "SELECT * FROM onceward_run WHERE request_id = :name ORDER BY id"


class Past:
    """What a database knew of a request: a standby that lagged knows no more when it is promoted.

    Args:
        name: the request.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._rows = database.query(FOUND, name=name)
        self._runs = database.query(KEPT, name=name)

    def comes_back(self) -> None:
        """Lose every commit since then."""
        for table in (request, run):
            named = f"DELETE FROM {table.name} WHERE request_id = :name"
            self._database.change(named, name=self._name)
        with self._database.engine.begin() as connection:
            for table, rows in ((request, self._rows), (run, self._runs)):
                for one in rows:
                    connection.execute(insert(table).values(one))


@pytest.fixture
def tick(database: Database, now_ms_of: Callable[[Database], int]) -> Tick:
    """Return a function that waits until the database's clock shows another millisecond."""

    def wait() -> None:
        now_ms = now_ms_of(database)
        eventually(lambda: now_ms_of(database) > now_ms)

    return wait


def judged(database: Database, name: str) -> tuple[int, list[tuple[str, str | None]]]:
    """Return how many runs may have had their effect, and what the history says of each."""
    (row,) = database.query(FOUND, name=name)
    runs = database.query(KEPT, name=name)
    return effect_runs(row, runs), [(one["outcome"], one["allowed_by"]) for one in runs]


def external(name: str, **facts: Any) -> Claim:
    return claim(name, effect_kind="external", **facts)


def granted(journal: Journal, wish: Claim) -> Claim:
    """Return a claim as it was granted."""
    row = row_of(journal.apply(Work(claims=[wish])))
    assert row.state == JournalState.CLAIMED
    return wish._replace(claimed_at=row.claimed_at, wakes=0)


def retried(journal: Journal, name: str, **facts: Any) -> tuple[OwnRun, OwnRun]:
    """Let a request fail as declared, run again and succeed; return both runs."""
    first = granted(journal, external(name, **facts))
    declared = finish(name, state=JournalState.RETRYING, delay_ms=0)
    journal.apply(Work(finishes=[declared]))
    second = granted(journal, external(name, wakes=1, **facts))
    paid = finish(name, 2)
    journal.apply(Work(finishes=[paid]))
    return OwnRun(first, 1, entered=False, finish=declared), OwnRun(second, 2, True, paid)


def claimed_past(journal: Journal, database: Database, name: str) -> Past:
    """Claim a request, take a look at the database, and forget the claim: it is granted anew."""
    granted(journal, external(name))
    past = Past(database, name)
    database.change("DELETE FROM onceward_request WHERE request_id = :name", name=name)
    return past


def told(
    one: OwnRun, state: JournalState = JournalState.SUCCEEDED, *, generation: int = 0
) -> ToldRun:
    """Return what the client was told of a run."""
    resend = state is JournalState.FAILED
    return ToldRun(one.claim, generation or one.generation, state, "gone", resend=resend)


@pytest.mark.parametrize("state", [JournalState.SUCCEEDED, JournalState.IN_DOUBT])
@pytest.mark.parametrize("later", [JournalState.FAILED, JournalState.EXPIRED, JournalState.SKIPPED])
def test_a_run_that_is_raised_above_a_failure_is_one_run(
    journal: Journal, database: Database, state: JournalState, later: JournalState
) -> None:
    name = new_id()
    first = granted(journal, external(name))
    journal.apply(Work(finishes=[finish(name, state=state)]))
    failed = ToldRun(
        external(name, attempt=2), 2, later, "gone", resend=later is JournalState.FAILED
    )
    applied = journal.apply(Work(claims=[external(name, attempt=3)], told_runs=[failed]))
    row = row_of(applied)
    assert (row.state, row.generation, row.claimed_at) == (state, 3, first.claimed_at)
    assert judged(database, name) == (1, [(state, "RAISED")])


def test_a_run_above_another_that_has_no_end_is_named_with_it(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    first = granted(journal, external(name))
    journal.apply(Work(finishes=[finish(name)]))
    runs = ToldRun(first._replace(attempt=2), 2, JournalState.CLAIMED, "gone")
    journal.apply(Work(claims=[external(name, attempt=3)], told_runs=[runs]))
    assert judged(database, name) == (2, [("SUCCEEDED", None)])


def test_a_run_above_a_transaction_that_has_no_end_is_one_run(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    wish = claim(name, effect_kind="transactional")
    granted(journal, wish)
    journal.apply(Work(finishes=[finish(name)]))
    runs = ToldRun(wish._replace(attempt=2), 2, JournalState.CLAIMED, "gone")
    journal.apply(Work(claims=[wish._replace(attempt=3)], told_runs=[runs]))
    assert judged(database, name) == (1, [("SUCCEEDED", "RAISED")])


def test_of_both_runs_it_is_written_how_they_ended_where_their_worker_knows(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    past = claimed_past(journal, database, name)
    runs = retried(journal, name)
    past.comes_back()
    (row,) = journal.apply(Work(own_runs=runs)).restored
    assert (row.state, row.generation, row.claimed_at) == (
        "SUCCEEDED",
        2,
        runs[1].claim.claimed_at,
    )
    assert judged(database, name) == (1, [("RETRYING", None)])
    assert journal.apply(Work(own_runs=runs)).restored == ()


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("stands_in", [JournalState.CLAIMED, JournalState.IN_DOUBT])
def test_a_later_run_that_was_granted_after_all_that_stands_there_followed_it_by_a_rule(
    journal: Journal, database: Database, is_told: bool, stands_in: JournalState
) -> None:
    name = new_id()
    past = claimed_past(journal, database, name)
    if stands_in is JournalState.IN_DOUBT:
        past.comes_back()
        journal.apply(Work(finishes=[finish(name, state=JournalState.IN_DOUBT)]))
        past = Past(database, name)
        database.change("DELETE FROM onceward_request WHERE request_id = :name", name=name)
    _, second = retried(journal, name)
    past.comes_back()
    restore(journal, second, is_told=is_told)
    outcome = "WORKER_DIED" if stands_in is JournalState.CLAIMED else "IN_DOUBT"
    assert judged(database, name) == (1, [(outcome, "GRANTED")])


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_a_run_that_a_peer_began_after_the_loss_is_a_second_one(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    tick: Tick,
    is_told: bool,
    ends: bool,
) -> None:
    name = new_id()
    past = Past(database, name)
    _, second = retried(journal, name)
    past.comes_back()
    tick()
    peer = open_journal("peer")
    granted(peer, external(name))
    if ends:
        peer.apply(Work(finishes=[finish(name)]))
    restore(journal, second, is_told=is_told)
    assert judged(database, name) == (2, [("SUCCEEDED" if ends else "WORKER_DIED", None)])


@pytest.mark.parametrize("is_told", [True, False])
def test_a_marked_effect_that_began_after_the_loss_is_a_second_one(
    journal: Journal, open_journal: OpenJournal, database: Database, tick: Tick, is_told: bool
) -> None:
    name = new_id()
    slow = open_journal("slow")
    slow.apply(Work(claims=[claim(name)]))
    past = Past(database, name)
    wish = takeover(name, 1, TakeoverKind.EXCLUDED, "WORKER_DIED")
    (result,) = journal.apply(Work(takeovers=[wish])).takeovers.values()
    assert result.row is not None
    journal.apply(Work(effects=[EffectMark(name, 2)], finishes=[finish(name, 2)]))
    past.comes_back()
    tick()
    assert slow.apply(Work(effects=[EffectMark(name, 1)])).effects
    ours = claim(name)._replace(claimed_at=result.row.claimed_at)
    restore(journal, OwnRun(ours, 2, True, finish(name, 2)), is_told=is_told)
    assert judged(database, name) == (2, [("WORKER_DIED", None)])


@pytest.mark.parametrize("is_told", [True, False])
@pytest.mark.parametrize("voids", [0, 1])
def test_a_second_run_under_the_same_key_is_no_second_charge(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    tick: Tick,
    is_told: bool,
    voids: int,
) -> None:
    name = new_id()
    past = Past(database, name)
    _, second = retried(journal, name, in_doubt="retry_same_key")
    past.comes_back()
    tick()
    peer = open_journal("peer")
    granted(peer, external(name, in_doubt="retry_same_key"))
    peer.apply(Work(finishes=[finish(name)]))
    database.change("UPDATE onceward_request SET voids = :voids", voids=voids)
    restore(journal, second, is_told=is_told)
    expected = (1, "SAME_KEY") if voids == 0 else (2, None)
    assert judged(database, name) == (expected[0], [("SUCCEEDED", expected[1])])


def test_of_a_run_whose_claim_nobody_dates_a_second_one_is_named(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    past = claimed_past(journal, database, name)
    _, second = retried(journal, name)
    past.comes_back()
    undated = second._replace(claim=second.claim._replace(claimed_at=None))
    restore(journal, undated, is_told=True)
    assert judged(database, name) == (2, [("WORKER_DIED", None)])


def test_what_is_written_again_was_claimed_when_it_was_and_not_now(
    journal: Journal, database: Database, tick: Tick
) -> None:
    name = new_id()
    past = Past(database, name)
    _, second = retried(journal, name)
    past.comes_back()
    tick()
    restore(journal, second, is_told=True)
    (row,) = database.query(FOUND, name=name)
    assert (row["claimed_at"], row["effect_at"]) == (second.claim.claimed_at,) * 2


def restore(journal: Journal, one: OwnRun, *, is_told: bool) -> None:
    """Write a lost run again: its worker, or whoever reads what its client was told."""
    if is_told:
        journal.catch_up([told(one)])
    else:
        journal.apply(Work(own_runs=[one]))
