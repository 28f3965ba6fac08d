"""What a claim does to the journal."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consumer.journal import EffectMark, Journal, JournalState, Published, VerdictKind, Work
from consumer.journal.records import over_message
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import (
    FAR,
    OTHER_SHA,
    PAST,
    claim,
    finish,
    kinds,
    new_id,
    row_of,
)


def failed_with_resend(journal: Journal, request_id: str, **options: object) -> None:
    journal.apply(Work(claims=[claim(request_id, **options)]))  # type: ignore[arg-type]
    journal.apply(
        Work(finishes=[finish(request_id, state=JournalState.FAILED, code="AWAY", resend=True)])
    )


def test_a_first_claim_runs_as_generation_one_and_its_verdict_says_what_the_row_says(
    journal: Journal,
) -> None:
    name = new_id()
    first = row_of(journal.apply(Work(claims=[claim(name)])))
    again = row_of(journal.apply(Work(claims=[claim(name)])))
    assert (first.generation, first.state, first.owner) == (1, JournalState.CLAIMED, "me")
    assert first.claimed_at is not None and first.effect_at is None
    assert first == again


def test_a_claim_of_an_external_handler_says_that_its_effect_may_have_happened(
    journal: Journal,
) -> None:
    name = new_id()
    first = row_of(journal.apply(Work(claims=[claim(name, effect_kind="external")])))
    assert first.effect_at == first.claimed_at
    assert first == row_of(journal.apply(Work(claims=[claim(name)])))


def test_a_claim_after_its_deadline_expires_by_the_databases_clock(
    journal: Journal, database: Database
) -> None:
    late, in_time = new_id(), new_id()
    applied = journal.apply(
        Work(claims=[claim(late, deadline_at=PAST, effect_kind="external"), claim(in_time)])
    )
    assert kinds(applied) == [VerdictKind.EXPIRED, VerdictKind.RUN]
    expired = applied.verdicts[0].row
    assert expired is not None
    assert (expired.state, expired.generation) == (JournalState.EXPIRED, 1)
    assert expired.finished_at is not None
    over_s = (expired.finished_at - PAST) // 1000
    assert (expired.code, expired.message) == ("DEADLINE_OVER", over_message(over_s))
    assert (expired.claimed_at, expired.effect_at) == (None, None)
    again = journal.apply(Work(claims=[claim(late, attempt=2)]))
    assert kinds(again) == [VerdictKind.ANSWERED]
    assert row_of(again) == expired
    assert database.query("SELECT * FROM onceward_run") == []


def test_verdicts_come_in_the_order_of_the_claims_whatever_their_ids(journal: Journal) -> None:
    names = ["b", "c", "a", "B", "é", "z"]
    applied = journal.apply(Work(claims=[claim(name) for name in names]))
    assert [verdict.claim.request_id for verdict in applied.verdicts] == names
    assert [verdict.row.request_id for verdict in applied.verdicts if verdict.row] == names


def test_a_claim_of_unknown_outcome_is_granted_again_unless_it_is_held(journal: Journal) -> None:
    names = [new_id() for _ in range(4)]
    claims = [claim(name) for name in names]
    first = journal.apply(Work(claims=claims))
    repeated = journal.apply(Work(claims=claims), held={(names[1], 1)}, tried=names[:3])
    assert kinds(first) == [VerdictKind.RUN] * 4
    run, running = VerdictKind.RUN, VerdictKind.RUNNING
    assert kinds(repeated) == [run, running, run, running]


def test_a_request_of_another_worker_is_running_elsewhere(open_journal: OpenJournal) -> None:
    name = new_id()
    open_journal("peer").apply(Work(claims=[claim(name)]))
    applied = open_journal("me").apply(Work(claims=[claim(name, attempt=2)]))
    assert kinds(applied) == [VerdictKind.RUNNING]
    assert row_of(applied).owner == "peer"


def test_a_request_that_is_claimed_runs_on_past_its_deadline(
    open_journal: OpenJournal, database: Database
) -> None:
    name = new_id()
    mine, peer = open_journal("me"), open_journal("peer")
    mine.apply(Work(claims=[claim(name)]))
    database.change("UPDATE onceward_request SET deadline_at = 1")
    assert kinds(peer.apply(Work(claims=[claim(name)]))) == [VerdictKind.RUNNING]
    assert kinds(mine.apply(Work(claims=[claim(name)]), tried=[name])) == [VerdictKind.RUN]


@pytest.mark.parametrize(
    "state", [JournalState.SUCCEEDED, JournalState.FAILED, JournalState.SKIPPED]
)
def test_what_ended_is_answered_with_its_first_outcome(
    journal: Journal, state: JournalState
) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(
        Work(finishes=[finish(name, state=state, code="C", message="m", result='{"a": 1}')])
    )
    applied = journal.apply(Work(claims=[claim(name, attempt=5)]))
    assert kinds(applied) == [VerdictKind.ANSWERED]
    stored = row_of(applied)
    assert (stored.state, stored.code, stored.message) == (state, "C", "m")
    assert (stored.result, stored.attempt, stored.resend) == ('{"a": 1}', 1, False)


@pytest.mark.parametrize("state", [JournalState.RETRYING, JournalState.IN_DOUBT])
def test_what_waits_is_told_as_it_waits(journal: Journal, state: JournalState) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=state, delay_ms=60_000)]))
    applied = journal.apply(Work(claims=[claim(name, attempt=2)]))
    assert kinds(applied) == [VerdictKind(state.value)]
    stored = row_of(applied)
    assert stored.due_at is not None and stored.finished_at is not None
    # Two readings of the clock within one statement, in either order.
    assert abs(stored.due_at - stored.finished_at - 60_000) <= 1000


def test_after_a_batch_that_was_known_others_are_decided_as_always(journal: Journal) -> None:
    known = [new_id() for _ in range(3)]
    journal.apply(Work(claims=[claim(name) for name in known]))
    journal.apply(Work(finishes=[finish(name) for name in known]))
    assert set(kinds(journal.apply(Work(claims=[claim(name) for name in known])))) == {
        VerdictKind.ANSWERED
    }
    first, second = new_id(), new_id()
    late = claim(new_id(), deadline_at=PAST)
    mixed = journal.apply(Work(claims=[claim(known[0]), claim(first), late, claim(second)]))
    assert kinds(mixed) == [
        VerdictKind.ANSWERED,
        VerdictKind.RUN,
        VerdictKind.EXPIRED,
        VerdictKind.RUN,
    ]
    assert [verdict.row.generation for verdict in mixed.verdicts if verdict.row] == [1, 1, 1, 1]


def test_the_same_id_with_another_payload_is_a_mismatch_and_changes_nothing(
    journal: Journal,
) -> None:
    name = new_id()
    first = row_of(journal.apply(Work(claims=[claim(name)])))
    applied = journal.apply(Work(claims=[claim(name, attempt=9, sha=OTHER_SHA)]))
    assert kinds(applied) == [VerdictKind.MISMATCH]
    assert row_of(applied) == first


def test_a_resend_reopens_a_failure_and_the_run_before_it_stays_in_the_history(
    open_journal: OpenJournal, database: Database
) -> None:
    name = new_id()
    mine, peer = open_journal("me"), open_journal("peer")
    failed_with_resend(mine, name)
    mine.apply(Work(published=[Published(name, 1, JournalState.FAILED)]))
    applied = peer.apply(Work(claims=[claim(name, attempt=2, offset=99, deadline_at=FAR + 5)]))
    assert kinds(applied) == [VerdictKind.RUN]
    reopened = row_of(applied)
    assert (reopened.state, reopened.generation, reopened.attempt) == (JournalState.CLAIMED, 2, 2)
    assert (reopened.owner, reopened.offset, reopened.deadline_at) == ("peer", 99, FAR)
    cleared = ("effect_at", "code", "message", "result", "finished_at", "published_at")
    assert [getattr(reopened, column) for column in cleared] == [None] * len(cleared)
    (kept,) = database.query("SELECT * FROM onceward_run")
    assert (kept["request_id"], kept["generation"], kept["owner"]) == (name, 1, "me")
    assert (kept["outcome"], kept["by_whom"], kept["offset"]) == (JournalState.FAILED, "peer", 17)
    assert kept["ended_at"] >= kept["claimed_at"]


def test_reopening_clears_the_mark_of_the_effect_and_an_external_claim_sets_it_anew(
    journal: Journal,
) -> None:
    marked, external = new_id(), new_id()
    journal.apply(Work(claims=[claim(marked), claim(external, effect_kind="external")]))
    journal.apply(Work(effects=[EffectMark(marked, 1)]))
    journal.apply(
        Work(
            finishes=[
                finish(name, state=JournalState.FAILED, resend=True) for name in (marked, external)
            ]
        )
    )
    applied = journal.apply(
        Work(claims=[claim(marked, attempt=2), claim(external, attempt=2, effect_kind="external")])
    )
    first, second = (verdict.row for verdict in applied.verdicts)
    assert first is not None and second is not None
    assert first.effect_at is None
    assert second.effect_at == second.claimed_at


def test_a_failure_is_not_reopened_by_an_old_attempt_or_after_its_deadline(
    journal: Journal, database: Database
) -> None:
    old, late = new_id(), new_id()
    failed_with_resend(journal, old, attempt=3)
    failed_with_resend(journal, late)
    database.change("UPDATE onceward_request SET deadline_at = 1 WHERE request_id = :id", id=late)
    applied = journal.apply(Work(claims=[claim(old, attempt=3), claim(late, attempt=2)]))
    assert kinds(applied) == [VerdictKind.ANSWERED] * 2
    assert database.query("SELECT * FROM onceward_run") == []


def test_of_one_id_twice_in_a_batch_the_first_decides_and_the_second_sees_it(
    journal: Journal,
) -> None:
    fresh, late, failed = new_id(), new_id(), new_id()
    failed_with_resend(journal, failed)
    applied = journal.apply(
        Work(
            claims=[
                claim(fresh),
                claim(late, deadline_at=PAST),
                claim(failed, attempt=2),
                claim(fresh, attempt=2),
                claim(late, attempt=2),
                claim(failed, attempt=3),
                claim(fresh, sha=OTHER_SHA),
            ]
        )
    )
    assert kinds(applied) == [
        VerdictKind.RUN,
        VerdictKind.EXPIRED,
        VerdictKind.RUN,
        VerdictKind.RUNNING,
        VerdictKind.ANSWERED,
        VerdictKind.RUNNING,
        VerdictKind.MISMATCH,
    ]


def test_groups_share_a_database_and_nothing_else(open_journal: OpenJournal) -> None:
    name = new_id()
    for group in ("one", "two"):
        applied = open_journal(group=group).apply(Work(claims=[claim(name)]))
        assert kinds(applied) == [VerdictKind.RUN]


def test_a_batch_of_everything_is_carried_out_in_its_order(journal: Journal) -> None:
    one, two = new_id(), new_id()
    journal.apply(Work(claims=[claim(one), claim(two)]))
    applied = journal.apply(
        Work(
            claims=[claim(one, attempt=2)],
            effects=[EffectMark(one, 1), EffectMark(two, 1)],
            finishes=[finish(one)],
        ),
    )
    assert kinds(applied) == [VerdictKind.ANSWERED]
    assert applied.effects == {(two, 1)}


def test_nothing_to_write_touches_no_database(
    group: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("none") / "absent.db"
    journal = Journal(f"sqlite:///{path}", group=group, worker_id="me")
    assert journal.apply(Work()).verdicts == ()
    assert not path.exists()


def test_the_clock_is_the_databases(
    journal: Journal, database: Database, now_ms_of: Callable[[Database], int]
) -> None:
    before = now_ms_of(database)
    claimed_at = row_of(journal.apply(Work(claims=[claim(new_id())]))).claimed_at
    assert claimed_at is not None
    assert before <= claimed_at <= now_ms_of(database)
