"""Takeovers in the database: what they write, what they keep, and what they leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from consumer.journal import (
    WORKER_DIED,
    EffectMark,
    Journal,
    JournalState,
    TakeoverKind,
    TakeoverResult,
    TakeoverResultKind,
    VerdictKind,
    Work,
)
from tests.consumer.journal.conftest import Database, OpenJournal, OpenLeases
from tests.consumer.journal.samples import OTHER_SHA, PAST, claim, finish, new_id, takeover

KIND = TakeoverKind
RESULT = TakeoverResultKind


def taken(
    journal: Journal,
    request_id: str,
    kind: TakeoverKind = KIND.EXCLUDED,
    *,
    generation: int = 1,
    because: str = "CHILD_DIED",
) -> TakeoverResult:
    """Take one run over, held as a worker holds its own."""
    run = (request_id, generation)
    wish = takeover(request_id, generation, kind, because)
    return journal.apply(Work(takeovers=[wish]), held=[run]).takeovers[run]


@pytest.fixture
def name(journal: Journal) -> str:
    """Return a marked request that worker `me` has claimed."""
    request_id = new_id()
    journal.apply(Work(claims=[claim(request_id)]))
    return request_id


def test_the_next_generation_is_ours_and_the_run_before_it_stays_in_the_history(
    journal: Journal, database: Database, name: str
) -> None:
    result = taken(journal, name)
    assert result.kind is RESULT.GRANTED and result.row is not None
    assert (result.row.generation, result.row.state, result.row.owner) == (2, "CLAIMED", "me")
    assert (result.row.effect_at, result.row.voids) == (None, 0)
    (kept,) = database.query("SELECT * FROM onceward_run")
    assert (kept["generation"], kept["outcome"], kept["by_whom"]) == (1, "CHILD_DIED", "me")
    assert kept["allowed_by"] == "EXCLUDED"
    assert journal.apply(Work(finishes=[finish(name, 1)])).finished[name, 1].kind == "STALE"
    assert journal.apply(Work(finishes=[finish(name, 2)])).finished[name, 2].kind == "WRITTEN"


def test_an_effect_that_has_begun_stops_a_run_that_counts_on_none(
    journal: Journal, database: Database, name: str
) -> None:
    journal.apply(Work(effects=[EffectMark(name, 1)]))
    result = taken(journal, name)
    assert result.kind is RESULT.DOUBTFUL
    assert result.row is not None and result.row.generation == 1
    assert database.query("SELECT * FROM onceward_run") == []


def test_the_same_key_keeps_the_doubt_and_a_void_ends_it(journal: Journal, name: str) -> None:
    journal.apply(Work(effects=[EffectMark(name, 1)]))
    doubtful = taken(journal, name, KIND.SAME_KEY).row
    assert doubtful is not None and doubtful.effect_at is not None and doubtful.voids == 0
    void = taken(journal, name, KIND.VOIDED, generation=2).row
    assert void is not None and (void.effect_at, void.voids, void.generation) == (None, 1, 3)


def test_an_external_run_is_in_its_effect_from_the_start(journal: Journal) -> None:
    request_id = new_id()
    journal.apply(Work(claims=[claim(request_id, effect_kind="external")]))
    assert taken(journal, request_id).kind is RESULT.DOUBTFUL
    void = taken(journal, request_id, KIND.VOIDED).row
    assert void is not None and void.effect_at is not None


@pytest.mark.parametrize(
    ("kind", "declared", "effect_kind", "has_effect"),
    [
        (KIND.EXCLUDED, "external", "external", True),
        (KIND.EXCLUDED, "transactional", "transactional", False),
        (KIND.SAME_KEY, "transactional", "marked", True),  # else its doubt would be forgotten
        (KIND.SAME_KEY, "external", "external", True),
        (KIND.VOIDED, "transactional", "transactional", False),
        (KIND.EXCLUDED, None, "marked", False),
    ],
)
def test_the_next_run_is_of_the_kind_that_its_handler_is_declared_as_now(
    journal: Journal,
    name: str,
    kind: TakeoverKind,
    declared: str | None,
    effect_kind: str,
    has_effect: bool,
) -> None:
    if kind is not KIND.EXCLUDED:
        journal.apply(Work(effects=[EffectMark(name, 1)]))
    wish = takeover(name, 1, kind, "CHILD_DIED", declared)
    row = journal.apply(Work(takeovers=[wish]), held=[(name, 1)]).takeovers[name, 1].row
    assert row is not None
    assert (row.effect_kind, row.effect_at is not None) == (effect_kind, has_effect)


def test_each_run_keeps_the_kind_and_the_policy_that_it_was_claimed_with(
    journal: Journal, database: Database
) -> None:
    one = new_id()
    first = claim(one, effect_kind="external", in_doubt="retry_same_key")
    row = journal.apply(Work(claims=[first])).verdicts[0].row
    assert row is not None and row.in_doubt == "retry_same_key"
    wish = takeover(one, 1, KIND.SAME_KEY, "CHILD_DIED", "marked", "query")
    row = journal.apply(Work(takeovers=[wish]), held=[(one, 1)]).takeovers[one, 1].row
    assert row is not None and row.in_doubt == "query"
    journal.apply(Work(finishes=[finish(one, 2, JournalState.FAILED, resend=True)]))
    again = claim(one, attempt=2, effect_kind="external", in_doubt="park")
    row = journal.apply(Work(claims=[again])).verdicts[0].row
    assert row is not None and (row.generation, row.in_doubt) == (3, "park")
    kept = database.query("SELECT * FROM onceward_run ORDER BY generation")
    declared = [(run["effect_kind"], run["in_doubt"]) for run in kept]
    assert declared == [("external", "retry_same_key"), ("marked", "query")]


def test_asking_makes_the_run_ours_and_no_new_one(
    journal: Journal, open_journal: OpenJournal, database: Database, name: str
) -> None:
    peer = open_journal("peer")
    result = taken(peer, name, KIND.ASK, because=WORKER_DIED)
    assert result.kind is RESULT.GRANTED and result.row is not None
    assert (result.row.owner, result.row.generation) == ("peer", 1)
    assert database.query("SELECT * FROM onceward_run") == []
    # The one that was thought dead may still tell how its run ended, but begins nothing more.
    assert journal.apply(Work(effects=[EffectMark(name, 1)])).effects == frozenset()
    end = finish(name, 1, claimed_at=result.row.claimed_at)
    assert journal.apply(Work(finishes=[end])).finished[name, 1].kind == "WRITTEN"


def test_a_living_owner_keeps_its_claim_and_a_dead_one_does_not(
    open_journal: OpenJournal, open_leases: OpenLeases, name: str
) -> None:
    leases = open_leases("me")
    leases.register(60)
    peer = open_journal("peer")
    assert taken(peer, name, because=WORKER_DIED).kind is RESULT.STALE
    leases.register(0)
    assert taken(peer, name, because=WORKER_DIED).kind is RESULT.GRANTED


@pytest.mark.parametrize("kind", KIND)
@pytest.mark.parametrize("ours", [{"payload_sha256": OTHER_SHA}, {"topic": "refunds"}])
def test_a_run_whose_claim_is_lost_does_not_go_on_as_another_request_of_its_id(
    journal: Journal,
    open_journal: OpenJournal,
    database: Database,
    kind: TakeoverKind,
    ours: dict[str, Any],
) -> None:
    name = new_id()
    # The database has lost our claim, and the lease of the peer that has claimed the other one.
    open_journal("peer").apply(Work(claims=[claim(name)]))
    before = database.query("SELECT * FROM onceward_request")
    wish = takeover(name, kind=kind)._replace(**ours)
    result = journal.apply(Work(takeovers=[wish]), held=[(name, 1)]).takeovers[name, 1]
    assert result.kind is RESULT.STALE
    assert database.query("SELECT * FROM onceward_request") == before
    assert database.query("SELECT * FROM onceward_run") == []


def test_of_two_peers_one_goes_on(open_journal: OpenJournal, name: str) -> None:
    peers = [open_journal("peer-1"), open_journal("peer-2")]
    results = [taken(peer, name, because=WORKER_DIED).kind for peer in peers]
    assert results == [RESULT.GRANTED, RESULT.STALE]


def test_a_takeover_whose_reply_was_lost_is_granted_again_and_once_only(
    journal: Journal, database: Database, name: str
) -> None:
    taken(journal, name)
    again = taken(journal, name)
    assert again.kind is RESULT.MINE
    assert again.row is not None and again.row.generation == 2
    assert len(database.query("SELECT * FROM onceward_run")) == 1


def test_a_resend_in_the_same_batch_finds_the_taken_over_run_in_our_hands(
    journal: Journal, name: str
) -> None:
    applied = journal.apply(
        Work(
            takeovers=[takeover(name, 1, KIND.EXCLUDED, "CHILD_DIED")],
            claims=[claim(name, attempt=2)],
        ),
        held=[(name, 1)],
    )
    assert applied.takeovers[name, 1].kind is RESULT.GRANTED
    assert [verdict.kind for verdict in applied.verdicts] == [VerdictKind.RUNNING]


def test_what_may_not_run_any_more_ends_in_the_same_step(
    journal: Journal, database: Database
) -> None:
    late, poison = new_id(), new_id()
    journal.apply(Work(claims=[claim(late), claim(poison)]))
    database.change(f"UPDATE onceward_request SET deadline_at = {PAST} WHERE request_id = '{late}'")
    ended = taken(journal, late)
    assert (ended.kind, ended.row and ended.row.state) == (RESULT.ENDED, JournalState.EXPIRED)
    for generation in (1, 2):
        assert taken(journal, poison, generation=generation).kind is RESULT.GRANTED
    ended = taken(journal, poison, generation=3)
    assert ended.row is not None
    assert (ended.row.state, ended.row.code) == (JournalState.FAILED, "CRASH_LOOP")
    assert {row.request_id for row in journal.unpublished(10, 0)} == {late, poison}


def test_of_many_callers_one_has_the_turn_to_sweep(
    journal: Journal, open_journal: OpenJournal
) -> None:
    peer = open_journal("peer")
    assert [one.sweep_is_due(60_000) for one in (journal, peer, journal)] == [True, False, False]
    assert open_journal("me", group="another").sweep_is_due(60_000)
    assert peer.sweep_is_due(0)


def test_a_turn_that_lies_in_the_future_stops_nobody(journal: Journal, database: Database) -> None:
    journal.sweep_is_due(60_000)
    database.change("UPDATE onceward_meta SET value = '9999999999999' WHERE name LIKE 'sweep:%'")
    assert journal.sweep_is_due(60_000)
