"""What happens to a claim after it was granted."""

from __future__ import annotations

import pytest

from consumer.journal import (
    EffectMark,
    FinishKind,
    Journal,
    JournalState,
    Published,
    VerdictKind,
    Work,
)
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import claim, finish, kinds, new_id, park_dead, row_of


@pytest.fixture
def name(journal: Journal) -> str:
    """Return the id of a request that `me` has claimed."""
    request_id = new_id()
    journal.apply(Work(claims=[claim(request_id)]))
    return request_id


def stored(journal: Journal, request_id: str) -> object:
    return row_of(journal.apply(Work(claims=[claim(request_id)])))


def test_a_finish_is_written_with_its_time_and_asks_for_the_status_to_be_told(
    journal: Journal, name: str
) -> None:
    ending = finish(name, code="C", message="m", result='{"a":1}')
    result = journal.apply(Work(finishes=[ending])).finished[name, 1]
    assert (result.kind, result.row) == (FinishKind.WRITTEN, None)
    (row,) = journal.unpublished(10, 0)
    assert (row.state, row.code, row.message, row.result) == ("SUCCEEDED", "C", "m", '{"a":1}')
    assert row.finished_at is not None and row.claimed_at is not None
    assert row.finished_at >= row.claimed_at


def test_a_finish_of_unknown_outcome_is_recognised_when_it_is_repeated(
    journal: Journal, name: str
) -> None:
    ending = finish(name, result="1")
    journal.apply(Work(finishes=[ending]))
    result = journal.apply(Work(finishes=[ending])).finished[name, 1]
    assert result.kind is FinishKind.ALREADY
    assert result.row is not None and result.row.result == "1"


def test_a_finish_of_an_older_generation_is_stale_and_one_without_its_claim_is_lost(
    journal: Journal, name: str
) -> None:
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED, resend=True)]))
    journal.apply(Work(claims=[claim(name, attempt=2)]))
    applied = journal.apply(Work(finishes=[finish(name, 1), finish("unknown", 1)]))
    stale, unknown = applied.finished[name, 1], applied.finished["unknown", 1]
    assert stale.kind is FinishKind.STALE
    assert stale.row is not None and (stale.row.generation, stale.row.state) == (
        2,
        JournalState.CLAIMED,
    )
    assert (unknown.kind, unknown.row) == (FinishKind.LOST, None)
    later = journal.apply(Work(finishes=[finish(name, 3)])).finished[name, 3]
    assert later.kind is FinishKind.LOST


def test_a_peer_that_repeats_my_finish_is_told_that_it_is_stale(
    open_journal: OpenJournal, journal: Journal, name: str
) -> None:
    journal.apply(Work(finishes=[finish(name)]))
    result = open_journal("peer").apply(Work(finishes=[finish(name)])).finished[name, 1]
    assert result.kind is FinishKind.STALE


def test_a_late_finish_resolves_its_doubt_and_the_doubt_stays_in_the_history(
    journal: Journal, database: Database, name: str
) -> None:
    (swept,) = park_dead(journal, 10)
    journal.apply(Work(published=[Published(name, 1, JournalState.IN_DOUBT)]))
    result = journal.apply(Work(finishes=[finish(name, result="7")])).finished[name, 1]
    assert result.kind is FinishKind.WRITTEN
    (row,) = journal.unpublished(10, 0)
    assert (row.state, row.generation, row.result, row.code) == ("SUCCEEDED", 1, "7", None)
    (kept,) = database.query("SELECT * FROM onceward_run")
    assert (kept["outcome"], kept["by_whom"], kept["generation"]) == ("IN_DOUBT", "me", 1)
    assert kept["ended_at"] == swept.finished_at


@pytest.mark.parametrize("may_help", [True, False])
def test_a_late_failure_that_was_to_run_again_resolves_its_doubt_as_failed(
    journal: Journal, database: Database, name: str, may_help: bool
) -> None:
    park_dead(journal, 10)
    waits = finish(
        name, state=JournalState.RETRYING, code="BANK_BUSY", delay_ms=5, resend_if_late=may_help
    )
    result = journal.apply(Work(finishes=[waits])).finished[name, 1]
    (row,) = journal.unpublished(10, 0)
    assert (row.state, row.code, row.resend, row.due_at) == ("FAILED", "BANK_BUSY", may_help, None)
    assert (result.kind, result.due_at) == (FinishKind.WRITTEN, None)
    assert result.resolution == finish(
        name, state=JournalState.FAILED, code="BANK_BUSY", resend=may_help, resend_if_late=may_help
    )
    (kept,) = database.query("SELECT outcome, generation FROM onceward_run")
    assert kept == {"outcome": "IN_DOUBT", "generation": 1}
    again = kinds(journal.apply(Work(claims=[claim(name, attempt=2)])))
    assert again == [VerdictKind.RUN if may_help else VerdictKind.ANSWERED]


def test_a_late_finish_after_its_doubt_was_resolved_changes_nothing(
    journal: Journal, name: str
) -> None:
    journal.apply(Work(finishes=[finish(name, state=JournalState.IN_DOUBT)]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED)]))
    result = journal.apply(Work(finishes=[finish(name)])).finished[name, 1]
    assert result.kind is FinishKind.STALE
    assert result.row is not None and result.row.state == JournalState.FAILED


def test_a_retry_is_a_finish_with_a_due_time(journal: Journal, name: str) -> None:
    waits = finish(name, state=JournalState.RETRYING, delay_ms=60_000)
    written = journal.apply(Work(finishes=[waits])).finished[name, 1]
    (row,) = journal.unpublished(10, 0)
    assert (row.state, row.due_at) == (JournalState.RETRYING, written.due_at)
    assert row.due_at is not None and row.finished_at is not None
    assert -1 <= row.due_at - row.finished_at - 60_000 <= 1000
    again = journal.apply(Work(finishes=[waits])).finished[name, 1]
    assert again.kind is FinishKind.ALREADY
    assert again.row is not None and again.row.due_at == written.due_at


def test_of_two_finishes_of_one_run_in_a_batch_the_first_is_written(
    journal: Journal, name: str
) -> None:
    journal.apply(
        Work(finishes=[finish(name, result="1"), finish(name, state=JournalState.FAILED)])
    )
    (row,) = journal.unpublished(10, 0)
    assert (row.state, row.result) == (JournalState.SUCCEEDED, "1")


def test_an_effect_is_granted_to_the_claims_own_generation_only(
    open_journal: OpenJournal, journal: Journal, name: str
) -> None:
    wrong = [EffectMark(name, 2), EffectMark("unknown", 1)]
    assert journal.apply(Work(effects=wrong)).effects == frozenset()
    assert open_journal("peer").apply(Work(effects=[EffectMark(name, 1)])).effects == frozenset()
    assert journal.apply(Work(effects=[EffectMark(name, 1), *wrong])).effects == {(name, 1)}


def test_an_effect_of_unknown_outcome_is_granted_again_and_keeps_its_time(
    journal: Journal, database: Database, name: str
) -> None:
    journal.apply(Work(effects=[EffectMark(name, 1)]))
    database.change("UPDATE onceward_request SET effect_at = 5")
    assert journal.apply(Work(effects=[EffectMark(name, 1)])).effects == {(name, 1)}
    assert database.query("SELECT effect_at FROM onceward_request") == [{"effect_at": 5}]


def test_an_effect_is_granted_past_the_deadline_only_where_the_lease_held(
    journal: Journal, database: Database, name: str
) -> None:
    other = new_id()
    journal.apply(Work(claims=[claim(other)]))
    in_time = EffectMark(other, 1, only_in_time=True)
    assert journal.apply(Work(effects=[in_time])).effects == {(other, 1)}
    database.change("UPDATE onceward_request SET deadline_at = 5")
    late = EffectMark(name, 1, only_in_time=True)
    # The effect of the other one has begun: this is asked anew, after a call of unknown outcome.
    assert journal.apply(Work(effects=[in_time, late])).effects == {(other, 1)}
    assert journal.apply(Work(effects=[late, EffectMark(name, 1)])).effects == {(name, 1)}


def test_no_effect_is_granted_once_the_claim_was_swept(journal: Journal, name: str) -> None:
    park_dead(journal, 10)
    assert journal.apply(Work(effects=[EffectMark(name, 1)])).effects == frozenset()


def test_a_status_counts_as_told_only_where_it_is_what_the_journal_says(
    journal: Journal, name: str
) -> None:
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED, resend=True)]))
    journal.apply(
        Work(
            published=[
                Published(name, 2, JournalState.FAILED),
                Published(name, 1, JournalState.SUCCEEDED),
            ]
        )
    )
    assert len(journal.unpublished(10, 0)) == 1
    journal.apply(Work(published=[Published(name, 1, JournalState.FAILED)] * 2))
    assert journal.unpublished(10, 0) == []


def test_what_is_told_lately_is_not_repaired_yet_and_the_oldest_comes_first(
    journal: Journal, database: Database
) -> None:
    names = [new_id() for _ in range(3)]
    journal.apply(Work(claims=[claim(one) for one in names]))
    journal.apply(Work(finishes=[finish(one) for one in names]))
    ages = {names[0]: 1000, names[1]: 3000, names[2]: 2000}
    for one, age in ages.items():
        database.change(
            "UPDATE onceward_request SET finished_at = finished_at - :age WHERE request_id = :id",
            age=age * 1000,
            id=one,
        )
    assert journal.unpublished(10, 4_000_000) == []
    found = [row.request_id for row in journal.unpublished(2, 500_000)]
    assert found == [names[1], names[2]]


def test_a_running_request_is_not_among_the_unpublished(journal: Journal, name: str) -> None:
    assert journal.unpublished(10, 0) == []
    assert kinds(journal.apply(Work(claims=[claim(name)]))) == ["RUNNING"]
