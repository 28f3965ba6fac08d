"""What a person decides about a doubt or a failure, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from consumer.journal import DataRefused, FinishKind, Journal, JournalState, VerdictKind, Work
from consumer.journal.actions import Action
from consumer.journal.owed_rows import DeadLetterRows
from consumer.journal.redrive.redrive_rule import DiscardVerdict, Redrivable, RedriveCandidate
from consumer.journal.redrive.resolving import RESERVED_CODES, RESOLVED, PersonDecisions
from consumer.journal.waiting import OwedCursor
from docs.generators.statuses import all_codes
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import SHA, claim, finish, kinds, new_id


@pytest.fixture
def decisions(database: Database, group: str) -> Iterator[PersonDecisions]:
    """Yield what carries decisions out."""
    made = PersonDecisions(database.url, group=group)
    yield made
    made.close()


def doubt(journal: Journal) -> str:
    name = new_id()
    journal.apply(Work(claims=[claim(name, effect_kind="external")]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.IN_DOUBT, code="WORKER_DIED")]))
    return name


def ended(journal: Journal, state: JournalState, *, resend: bool = False) -> str:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    if state is not JournalState.CLAIMED:
        journal.apply(Work(finishes=[finish(name, state=state, resend=resend)]))
    return name


def succeed(decisions: PersonDecisions, name: str, result: str | None = '{"r": 1}') -> bool:
    is_done, _ = decisions.resolve(
        name, has_succeeded=True, result=result, code=None, reason="the list", by="zoe"
    )
    return is_done


def fail(decisions: PersonDecisions, name: str) -> bool:
    is_done, _ = decisions.resolve(
        name, has_succeeded=False, result=None, code="NOT_CHARGED", reason="no such", by="zoe"
    )
    return is_done


def test_a_doubt_is_resolved_as_succeeded_and_its_run_stays_in_the_history(
    journal: Journal, decisions: PersonDecisions, database: Database
) -> None:
    name = doubt(journal)
    assert succeed(decisions, name)
    (row,) = database.query("SELECT * FROM onceward_request")
    assert (row["state"], row["result"], row["code"]) == ("SUCCEEDED", '{"r": 1}', None)
    assert (row["published_at"], row["generation"]) == (None, 1)
    (kept,) = database.query("SELECT * FROM onceward_run")
    assert (kept["outcome"], kept["by_whom"], kept["generation"]) == ("IN_DOUBT", "zoe", 1)
    (noted,) = database.query("SELECT * FROM onceward_action")
    assert (noted["action"], noted["by"], noted["reason"]) == ("resolve", "zoe", "the list")
    assert kinds(journal.apply(Work(claims=[claim(name, attempt=2)]))) == [VerdictKind.ANSWERED]
    late = journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED)]))
    assert late.finished[name, 1].kind is FinishKind.STALE


def test_a_doubt_that_is_resolved_as_failed_waits_for_its_letter(
    journal: Journal, decisions: PersonDecisions, database: Database, group: str
) -> None:
    name = doubt(journal)
    assert fail(decisions, name)
    (row,) = database.query("SELECT * FROM onceward_request")
    assert (row["state"], row["code"], row["message"]) == ("FAILED", "NOT_CHARGED", "no such")
    assert (row["resend"], row["dead_letter_at"]) == (0, None)
    rows = DeadLetterRows(database.url, group=group, worker_id="me")
    (waits,) = rows.page(OwedCursor(), topics=["payments"], limit=9, of_the_dead=True)
    assert waits.row.request_id == name
    rows.close()


@pytest.mark.parametrize(
    "state",
    [
        JournalState.CLAIMED,
        JournalState.RETRYING,
        JournalState.SUCCEEDED,
        JournalState.FAILED,
        JournalState.EXPIRED,
    ],
)
@pytest.mark.parametrize("decide", [succeed, fail])
def test_nothing_but_a_doubt_can_be_resolved(
    journal: Journal,
    decisions: PersonDecisions,
    database: Database,
    state: JournalState,
    decide: Callable[[PersonDecisions, str], bool],
) -> None:
    name = ended(journal, state)
    before = database.query("SELECT * FROM onceward_request")
    assert not decide(decisions, name)
    assert not decide(decisions, "nobody")
    assert database.query("SELECT * FROM onceward_request") == before
    assert not database.query("SELECT * FROM onceward_run")
    assert not database.query("SELECT * FROM onceward_action")


def test_the_reserved_codes_are_those_of_the_product() -> None:
    assert all_codes() == RESERVED_CODES
    assert RESOLVED not in RESERVED_CODES


@pytest.mark.parametrize("code", ["INVALID_MESSAGE", "PAYLOAD_MISMATCH", "END_LOST"])
def test_a_code_that_has_a_meaning_of_its_own_is_no_word_of_a_person(
    journal: Journal, decisions: PersonDecisions, database: Database, code: str
) -> None:
    name = doubt(journal)
    with pytest.raises(ValueError, match=f"{code} has a meaning .* reserved are CHILD_DIED, "):
        decisions.resolve(
            name, has_succeeded=False, result=None, code=code, reason="no such", by="zoe"
        )
    (row,) = journal.rows([name])
    assert row.state == JournalState.IN_DOUBT
    assert not database.query("SELECT * FROM onceward_action")


def test_a_doubt_is_resolved_once(journal: Journal, decisions: PersonDecisions) -> None:
    name = doubt(journal)
    assert succeed(decisions, name)
    assert not fail(decisions, name)


def test_a_result_that_the_database_does_not_take_changes_nothing(
    journal: Journal, decisions: PersonDecisions, database: Database
) -> None:
    name = doubt(journal)
    with pytest.raises(DataRefused):
        succeed(decisions, name, "a\0b")
    (row,) = database.query("SELECT state FROM onceward_request")
    assert row["state"] == "IN_DOUBT"


def failure(name: str, generation: int | None = None, *, sha: str = SHA) -> RedriveCandidate:
    return RedriveCandidate(name, generation, sha, 0)


def test_failures_are_discarded_once_and_stay_as_they_are(
    journal: Journal, decisions: PersonDecisions, database: Database
) -> None:
    name = ended(journal, JournalState.FAILED)
    before = database.query("SELECT * FROM onceward_request")
    wanted = [failure(name, 1), failure("unknown")]
    assert decisions.discard(wanted, by="zoe", reason="a test") == [None, None]
    again = decisions.discard(wanted, by="zoe", reason="a test")
    assert again == [Redrivable.DISCARDED] * 2
    assert database.query("SELECT * FROM onceward_request") == before
    noted = database.query("SELECT request_id, generation FROM onceward_action ORDER BY id")
    assert [(one["request_id"], one["generation"]) for one in noted] == [
        (name, 1),
        ("unknown", None),
    ]


def test_what_was_sent_back_and_never_came_is_discarded_after_its_deadline(
    journal: Journal, decisions: PersonDecisions, database: Database
) -> None:
    name = ended(journal, JournalState.FAILED, resend=True)
    database.change("UPDATE onceward_request SET deadline_at = 1")
    assert decisions.discard([failure(name, 1)], by="zoe", reason="a test") == [None]


def test_only_failures_for_good_are_discarded(journal: Journal, decisions: PersonDecisions) -> None:
    left = {
        ended(journal, JournalState.CLAIMED): Redrivable.RUNNING,
        ended(journal, JournalState.SUCCEEDED): Redrivable.DONE,
        ended(journal, JournalState.IN_DOUBT): Redrivable.IN_DOUBT,
        ended(journal, JournalState.FAILED, resend=True): Redrivable.ON_ITS_WAY,
    }
    older = ended(journal, JournalState.FAILED)
    wanted = [*map(failure, left), failure(older, 7), failure(older, sha="of another")]
    found = decisions.discard(wanted, by="zoe", reason="a test")
    assert found == [*left.values(), Redrivable.OLDER_FAILURE, Redrivable.PAYLOAD_MISMATCH]


@pytest.mark.parametrize("is_trial", [True, False])
def test_each_letter_of_a_request_is_answered_for_itself(
    journal: Journal, decisions: PersonDecisions, is_trial: bool
) -> None:
    name = ended(journal, JournalState.FAILED)
    theirs = failure(name, sha="of another")
    wanted = [theirs, failure(name, 1), failure(name, 7), failure(name), theirs]
    found = decisions.discard(wanted, by="zoe", reason="a test", is_trial=is_trial)
    mismatch = Redrivable.PAYLOAD_MISMATCH
    older, double = Redrivable.OLDER_FAILURE, Redrivable.DOUBLE
    assert found == [mismatch, None, older, double, mismatch]


def theirs(name: str) -> RedriveCandidate:
    """Return a failure in another system, of a record that this group has read too."""
    return failure(name, sha="c" * 64)._replace(elsewhere_at=1)


@pytest.mark.parametrize("state", [one for one in JournalState if one != JournalState.SKIPPED])
def test_a_failure_in_another_system_is_discarded_for_itself_and_that_undone(
    journal: Journal, decisions: PersonDecisions, database: Database, state: JournalState
) -> None:
    name = ended(journal, state)
    before = database.query("SELECT * FROM onceward_request")
    given: dict[str, Any] = {"by": "zoe", "reason": "theirs"}
    if state is JournalState.FAILED:
        # A redrive of the letter would send what has failed here: that is decided first.
        assert decisions.discard([theirs(name)], **given) == [Redrivable.OURS_OPEN]
        assert not database.query("SELECT * FROM onceward_action")
        assert decisions.discard([failure(name, 1)], **given) == [None]
    assert decisions.discard([theirs(name)], **given, is_trial=True) == [None]
    assert decisions.discard([theirs(name)], **given) == [None]
    assert decisions.discard([theirs(name)], **given) == [Redrivable.DISCARDED]
    (noted,) = database.query("SELECT * FROM onceward_action WHERE generation IS NULL")
    assert (noted["request_id"], noted["action"], noted["redrive_id"]) == (name, "discard", None)
    # Ours is where it was: its own undo is of its own discard alone.
    found = decisions.undo_discard([name], **given)[name]
    assert found is (DiscardVerdict.UNDONE if state == "FAILED" else DiscardVerdict.NOT_DISCARDED)
    undone = decisions.undo_discard([name], **given, is_beside=True)
    assert undone == {name: DiscardVerdict.UNDONE}
    undone = decisions.undo_discard([name], **given, is_beside=True)
    assert undone == {name: DiscardVerdict.NOT_DISCARDED}
    assert database.query("SELECT * FROM onceward_request") == before


def test_a_discard_for_another_system_closes_no_failure_that_this_group_has_later(
    journal: Journal, decisions: PersonDecisions
) -> None:
    name = ended(journal, JournalState.CLAIMED)
    given: dict[str, Any] = {"by": "zoe", "reason": "x"}
    assert decisions.discard([theirs(name)], **given) == [None]
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED)]))
    assert decisions.discard([theirs(name)], **given) == [Redrivable.OURS_OPEN]
    assert decisions.discard([failure(name, 1)], **given, is_trial=True) == [None]


@pytest.mark.parametrize("is_pruned_before", [True, False])
def test_the_undo_of_theirs_opens_no_discarded_failure_of_ours_whose_row_is_pruned(
    journal: Journal, decisions: PersonDecisions, database: Database, is_pruned_before: bool
) -> None:
    name = ended(journal, JournalState.FAILED)
    given: dict[str, Any] = {"by": "zoe", "reason": "refunded"}

    def prune() -> None:
        # Its letter is written, and all that was long ago.
        times = ("deadline_at", "finished_at", "dead_letter_at")
        aged = ", ".join(f"{one} = 1" for one in times)
        database.change(f"UPDATE onceward_request SET {aged} WHERE request_id = :name", name=name)
        assert journal.prune(86_400_000, 10).requests == 1

    assert decisions.discard([failure(name, 1)], **given) == [None]
    if is_pruned_before:
        prune()
    assert decisions.discard([theirs(name)], **given) == [None]
    undone = decisions.undo_discard([name], **given, is_beside=True)
    assert undone == {name: DiscardVerdict.UNDONE}
    if not is_pruned_before:
        prune()
    ours = decisions.discard([failure(name, 1)], **given, is_trial=True)
    assert ours == [Redrivable.DISCARDED]
    assert decisions.discard([theirs(name)], **given, is_trial=True) == [None]
    # Its own undo opens it.
    assert decisions.undo_discard([name], **given) == {name: DiscardVerdict.UNDONE}
    assert decisions.discard([failure(name, 1)], **given, is_trial=True) == [None]


def test_a_failure_of_ours_that_may_run_is_waited_for_before_theirs_is_discarded(
    journal: Journal, decisions: PersonDecisions
) -> None:
    name = ended(journal, JournalState.FAILED, resend=True)
    found = decisions.discard([theirs(name)], by="zoe", reason="x")
    assert found == [Redrivable.ON_ITS_WAY]


@pytest.mark.parametrize("is_beside", [False, True])
def test_only_the_discard_that_was_seen_is_undone(
    journal: Journal, decisions: PersonDecisions, database: Database, is_beside: bool
) -> None:
    name = ended(journal, JournalState.SUCCEEDED if is_beside else JournalState.FAILED)
    one = theirs(name) if is_beside else failure(name, 1)

    def discarded(by: str) -> str:
        """Discard it, and return the stamp of that."""
        assert decisions.discard([one], by=by, reason="a test") == [None]
        found = database.query("SELECT id, at FROM onceward_action ORDER BY id")[-1]
        return Action(name, "discard", by, found["at"], "", None, None, found["id"]).stamp

    def undone(seen: str | None) -> DiscardVerdict:
        given: dict[str, Any] = {"by": "olga", "reason": "no test", "is_beside": is_beside}
        return decisions.undo_discard([name], **given, seen=seen)[name]

    first = discarded("olga")
    assert undone(None) is DiscardVerdict.UNDONE
    assert undone(first) is DiscardVerdict.NOT_DISCARDED
    second = discarded("otto")
    assert undone(first) is DiscardVerdict.ANOTHER
    # A database that has forgotten commits gives an id once more.
    number, _, at = second.partition(".")
    assert undone(f"{number}.{int(at) + 1}") is DiscardVerdict.ANOTHER
    assert undone(second) is DiscardVerdict.UNDONE
    actions = database.query("SELECT action, by FROM onceward_action ORDER BY id")
    assert [one["action"] for one in actions] == ["discard", "undo", "discard", "undo"]
