"""A person has ended a doubt, and an end of a later run comes that the database had lost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.journal import Journal, JournalState, OwnRun, Row, VerdictKind, Work
from consumer.journal.redrive.resolving import PersonDecisions
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import claim, finish, kinds, new_id
from tests.spark_audit.judge.effects import effect_runs

SUCCEEDED, FAILED = JournalState.SUCCEEDED, JournalState.FAILED
IN_DOUBT, RETRYING = JournalState.IN_DOUBT, JournalState.RETRYING


@pytest.fixture
def decisions(database: Database, group: str) -> Iterator[PersonDecisions]:
    """Yield what carries a person's decisions out."""
    made = PersonDecisions(database.url, group=group)
    yield made
    made.close()


@pytest.fixture
def peer(open_journal: OpenJournal) -> Journal:
    """Return the journal of the worker of the first run."""
    return open_journal("peer")


def decided(peer: Journal, decisions: PersonDecisions, *, has_succeeded: bool) -> str:
    """Let a person end the doubt about the first run of a request, and return its id."""
    name = new_id()
    peer.apply(Work(claims=[claim(name, effect_kind="external")]))
    peer.apply(Work(finishes=[finish(name, state=IN_DOUBT, code="WORKER_DIED")]))
    is_done, _ = decisions.resolve(
        name,
        has_succeeded=has_succeeded,
        result='{"receipt": 7}' if has_succeeded else None,
        code=None if has_succeeded else "NOT_CHARGED",
        reason="the bank's list",
        by="zoe",
        generation=1,
    )
    assert is_done
    return name


def ended(name: str, state: JournalState, generation: int = 2, *, attempt: int = 1) -> OwnRun:
    """Return a later run of ours, whose claim the database has lost."""
    delay_ms = 0 if state is RETRYING else None
    end = finish(name, generation, state, code="OURS", resend=True, delay_ms=delay_ms)
    ours = claim(name, effect_kind="external", attempt=attempt)
    return OwnRun(ours, generation, entered=True, finish=end)


def written(journal: Journal, one: OwnRun) -> Row:
    """Write a lost run again, twice; return the row."""
    (row,) = journal.apply(Work(own_runs=[one])).restored
    # Its worker remembers that run, and tells of it with every further record.
    assert journal.apply(Work(own_runs=[one])).restored == ()
    return row


def kept(database: Database, name: str) -> list[tuple[int, str, str]]:
    """Return the history: generation, outcome and whose run it was."""
    runs = database.query(
        "SELECT * FROM onceward_run WHERE request_id = :name ORDER BY id", name=name
    )
    return [(one["generation"], one["outcome"], one["owner"]) for one in runs]


def effects(database: Database, name: str) -> int:
    """Return how many effects the audit counts."""
    (row,) = database.query("SELECT * FROM onceward_request WHERE request_id = :name", name=name)
    runs = database.query("SELECT * FROM onceward_run WHERE request_id = :name", name=name)
    return effect_runs(row, runs)


@pytest.mark.parametrize("has_succeeded", [True, False])
@pytest.mark.parametrize("state", [FAILED, RETRYING, JournalState.EXPIRED])
def test_a_person_s_answer_stands_above_a_later_run_without_an_effect(
    journal: Journal,
    peer: Journal,
    decisions: PersonDecisions,
    database: Database,
    state: JournalState,
    has_succeeded: bool,
) -> None:
    name = decided(peer, decisions, has_succeeded=has_succeeded)
    (answer,) = journal.rows([name])
    row = written(journal, ended(name, state))
    assert row == answer._replace(generation=3, finished_at=row.finished_at, published_at=None)
    assert (row.finished_at or 0) >= (answer.finished_at or 0)
    history = [(1, IN_DOUBT, "peer"), (1, answer.state, "peer"), (2, state, "me")]
    assert (kept(database, name), effects(database, name)) == (history, int(has_succeeded))
    again = journal.apply(Work(claims=[claim(name, attempt=2)]))
    assert kinds(again) == [VerdictKind.ANSWERED]


def test_a_later_success_contradicts_a_person_s_failure_and_asks_once_more(
    journal: Journal, peer: Journal, decisions: PersonDecisions, database: Database
) -> None:
    name = decided(peer, decisions, has_succeeded=False)
    row = written(journal, ended(name, SUCCEEDED))
    assert (row.state, row.code, row.generation, row.resend) == (IN_DOUBT, "END_LOST", 3, False)
    assert "resolved run 1 as FAILED; run 2" in (row.message or "")
    history = [(1, IN_DOUBT, "peer"), (1, FAILED, "peer"), (2, SUCCEEDED, "me")]
    assert (kept(database, name), effects(database, name)) == (history, 1)
    assert kinds(journal.apply(Work(claims=[claim(name, attempt=2)]))) == [VerdictKind.IN_DOUBT]
    is_done, _ = decisions.resolve(
        name, has_succeeded=True, result=None, code=None, reason="both lists", by="zoe"
    )
    assert (is_done, effects(database, name)) == (True, 1)


def test_a_later_success_beside_a_success_of_a_person_is_seen_as_a_second_effect(
    journal: Journal, peer: Journal, decisions: PersonDecisions, database: Database
) -> None:
    name = decided(peer, decisions, has_succeeded=True)
    row = written(journal, ended(name, SUCCEEDED))
    assert (row.state, row.generation, row.owner) == (SUCCEEDED, 2, "me")
    assert effects(database, name) == 2


@pytest.mark.parametrize("has_succeeded", [True, False])
def test_a_later_doubt_is_a_doubt(
    journal: Journal, peer: Journal, decisions: PersonDecisions, has_succeeded: bool
) -> None:
    name = decided(peer, decisions, has_succeeded=has_succeeded)
    row = written(journal, ended(name, IN_DOUBT))
    assert (row.state, row.code, row.generation) == (IN_DOUBT, "OURS", 2)


def test_the_run_that_a_person_has_asked_for_since_ends_as_it_ended(
    journal: Journal, peer: Journal, decisions: PersonDecisions, database: Database
) -> None:
    name = decided(peer, decisions, has_succeeded=False)
    # A redrive; the claim that it allowed is lost.
    database.change("UPDATE onceward_request SET resend = 1 WHERE request_id = :name", name=name)
    row = written(journal, ended(name, FAILED, attempt=2))
    assert (row.state, row.code, row.generation) == (FAILED, "OURS", 2)


def test_a_doubt_that_its_own_worker_has_ended_is_no_answer_of_a_person(
    journal: Journal, peer: Journal
) -> None:
    name = new_id()
    peer.apply(Work(claims=[claim(name, effect_kind="external")]))
    peer.apply(Work(finishes=[finish(name, state=IN_DOUBT, code="WORKER_DIED")]))
    peer.apply(Work(finishes=[finish(name, state=FAILED)]))
    row = written(journal, ended(name, SUCCEEDED))
    assert (row.state, row.generation, row.owner) == (SUCCEEDED, 2, "me")
