"""Rows that are behind what clients were told: brought forward before anything runs again."""

from __future__ import annotations

import pytest

from consumer.journal import (
    EffectMark,
    Journal,
    JournalState,
    OwnRun,
    TakeoverKind,
    TakeoverResultKind,
    ToldRun,
    VerdictKind,
    Work,
)
from feedback.status import DISOWNED
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import claim, finish, kinds, new_id, row_of, takeover

RUN, ANSWERED, RUNNING = VerdictKind.RUN, VerdictKind.ANSWERED, VerdictKind.RUNNING


def told(name: str, state: JournalState, *, attempt: int = 2, generation: int = 2) -> ToldRun:
    owner = f"gone{DISOWNED}" if state is JournalState.CLAIMED else "gone"
    resend = state is JournalState.FAILED
    return ToldRun(claim(name, attempt=attempt), generation, state, owner, resend=resend)


def failed(journal: Journal) -> str:
    """Return a request that has failed, and that a resend may reopen."""
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED, resend=True)]))
    return name


@pytest.mark.parametrize(
    ("state", "verdict", "stands"),
    [
        (JournalState.SUCCEEDED, ANSWERED, (JournalState.SUCCEEDED, 2)),
        (JournalState.IN_DOUBT, VerdictKind.IN_DOUBT, (JournalState.IN_DOUBT, 2)),
        (JournalState.EXPIRED, ANSWERED, (JournalState.EXPIRED, 2)),
        (JournalState.CLAIMED, RUNNING, (JournalState.CLAIMED, 2)),
        (JournalState.FAILED, RUN, (JournalState.CLAIMED, 3)),
    ],
)
@pytest.mark.parametrize("has_row", [True, False])
def test_a_resend_is_decided_on_what_its_client_was_told(
    journal: Journal,
    database: Database,
    state: JournalState,
    verdict: VerdictKind,
    stands: object,
    has_row: bool,
) -> None:
    name = failed(journal) if has_row else new_id()
    applied = journal.apply(Work(claims=[claim(name, attempt=3)], told_runs=[told(name, state)]))
    row = row_of(applied)
    assert (kinds(applied), (row.state, row.generation)) == ([verdict], stands)
    assert [one.generation for one in applied.restored] == [2]
    (found,) = database.query("SELECT * FROM onceward_request WHERE request_id = :n", n=name)
    assert (found["effect_at"] is None) is (state in (JournalState.EXPIRED, JournalState.FAILED))
    history = database.query("SELECT generation FROM onceward_run WHERE request_id = :n", n=name)
    kept = [1] * has_row + [2] * (state is JournalState.FAILED)
    assert [one["generation"] for one in history] == kept


def test_a_wake_up_follows_no_run_that_another_has_followed_already(journal: Journal) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.RETRYING, delay_ms=0)]))
    wakes = claim(name, wakes=1)
    applied = journal.apply(Work(claims=[wakes], told_runs=[told(name, JournalState.SUCCEEDED)]))
    assert (kinds(applied), row_of(applied).state) == ([ANSWERED], JournalState.SUCCEEDED)
    assert kinds(journal.apply(Work(claims=[wakes]))) == [ANSWERED]


def test_what_is_not_behind_is_not_touched(journal: Journal) -> None:
    name = failed(journal)
    one = told(name, JournalState.SUCCEEDED, generation=1)
    applied = journal.apply(Work(claims=[claim(name, attempt=2)], told_runs=[one]))
    assert (kinds(applied), applied.restored, row_of(applied).generation) == ([RUN], (), 2)


def test_a_claim_is_left_to_its_owner_and_brought_forward_once_that_is_gone(
    journal: Journal, database: Database
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    one = told(name, JournalState.CLAIMED)
    assert journal.apply(Work(told_runs=[one])).restored == ()
    (row,) = journal.catch_up([one])
    assert (row.generation, row.owner, row.effect_at is None) == (2, f"gone{DISOWNED}", False)
    (kept,) = database.query("SELECT generation, outcome FROM onceward_run")
    assert kept == {"generation": 1, "outcome": "WORKER_DIED"}
    assert journal.catch_up([one]) == []
    assert [one.generation for one in journal.rows([name, "unknown"])] == [2]


def test_a_told_run_whose_words_the_database_refuses_hinders_no_other(journal: Journal) -> None:
    names = [new_id(), new_id(), new_id()]
    first, refused, last = (told(name, JournalState.FAILED) for name in names)
    refused = refused._replace(owner="gone\0", code="A\0", message="B\0", by="C\0")
    caught_up = journal.catch_up([first, refused, last])
    assert {row.request_id for row in caught_up} == set(names)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_claim_of_ours_that_is_about_to_go_on_is_brought_forward_first(
    journal: Journal, goes_on: bool
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    effects = [EffectMark(name, 1)] if goes_on else []
    applied = journal.apply(Work(effects=effects, told_runs=[told(name, JournalState.SUCCEEDED)]))
    assert applied.effects == frozenset()
    generations = [one.generation for one in applied.restored]
    assert generations == [2] * goes_on


def test_a_claim_of_ours_is_not_taken_over_where_a_later_run_was_told(journal: Journal) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    wish = takeover(name, 1, TakeoverKind.EXCLUDED, "CHILD_DIED")
    applied = journal.apply(Work(takeovers=[wish], told_runs=[told(name, JournalState.SUCCEEDED)]))
    result = applied.takeovers[name, 1]
    assert result.kind is TakeoverResultKind.STALE
    assert result.row is not None
    assert (result.row.state, result.row.generation) == (JournalState.SUCCEEDED, 2)


@pytest.mark.parametrize("has_row", [True, False])
def test_what_catches_up_has_the_key_of_the_run_that_its_client_was_told_of(
    journal: Journal, has_row: bool
) -> None:
    name = failed(journal) if has_row else new_id()
    one = told(name, JournalState.CLAIMED)
    (row,) = journal.catch_up([one._replace(claim=one.claim._replace(voids=1))])
    assert (row.state, row.generation, row.voids) == (JournalState.CLAIMED, 2, 1)


@pytest.mark.parametrize("claimed_at", [None, 7])
@pytest.mark.parametrize("state", [JournalState.EXPIRED, JournalState.SKIPPED])
@pytest.mark.parametrize("has_row", [True, False])
def test_an_end_without_an_effect_says_whether_it_was_claimed(
    journal: Journal, state: JournalState, claimed_at: int | None, has_row: bool
) -> None:
    name = failed(journal) if has_row else new_id()
    one = told(name, state)
    (row,) = journal.catch_up([one._replace(claim=one.claim._replace(claimed_at=claimed_at))])
    assert (row.state, row.claimed_at, row.effect_at) == (state, claimed_at, None)
    zombie = OwnRun(claim(name, attempt=2, effect_kind="external"), 2, False, None)
    restored = journal.apply(Work(own_runs=[zombie])).restored
    assert [row.state for row in restored] == [JournalState.IN_DOUBT] * (claimed_at is None)
