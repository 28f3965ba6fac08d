"""What waits for its next run: woken up once, when it is due, and never beyond its time."""

from __future__ import annotations

import pytest

from consumer.journal import (
    Claim,
    Finish,
    FinishKind,
    Journal,
    JournalState,
    RetriedRuns,
    TakeoverKind,
    VerdictKind,
    Work,
)
from consumer.journal.records import DEADLINE_OVER, over_message
from consumer.journal.sweeps.retrying import DueCursor
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import (
    OTHER_SHA,
    PAST,
    claim,
    finish,
    kinds,
    new_id,
    row_of,
    takeover,
)


def _waits(name: str, generation: int = 1, delay_ms: int = 0) -> Finish:
    return finish(
        name,
        generation,
        JournalState.RETRYING,
        code="BANK_BUSY",
        message="later",
        delay_ms=delay_ms,
    )


def _retrying(journal: Journal, *, delay_ms: int = 0, effect_kind: str = "external") -> str:
    name = new_id()
    journal.apply(Work(claims=[claim(name, effect_kind=effect_kind)]))
    journal.apply(Work(finishes=[_waits(name, delay_ms=delay_ms)]))
    return name


def _wake(name: str, generation: int = 1, **changes: object) -> Claim:
    return claim(name, wakes=generation, effect_kind="marked", **changes)  # type: ignore[arg-type]


def test_what_is_due_runs_again_as_the_next_generation_and_its_run_is_kept(
    journal: Journal, open_journal: OpenJournal, database: Database
) -> None:
    name = _retrying(journal)
    before = journal.unpublished(10, 0)[0]
    peer = open_journal("peer")
    applied = peer.apply(Work(claims=[_wake(name, offset=99)]))
    assert kinds(applied) == [VerdictKind.RUN]
    row = row_of(applied)
    assert (row.state, row.generation, row.owner, row.attempt) == (
        JournalState.CLAIMED,
        2,
        "peer",
        1,
    )
    # Nothing happened in the run before: the effect of the next one is still to come.
    assert (row.effect_at, row.effect_kind, row.offset) == (None, "marked", 17)
    assert (row.due_at, row.code, row.message, row.finished_at) == (None, None, None, None)
    (verdict,) = applied.verdicts
    assert verdict.retried == RetriedRuns(1, before.finished_at or 0)
    (run,) = database.query("SELECT * FROM onceward_run WHERE request_id = :name", name=name)
    assert (run["outcome"], run["generation"], run["owner"]) == ("RETRYING", 1, "me")
    assert (run["effect_at"], run["allowed_by"]) == (before.effect_at, None)


def test_a_plain_external_handlers_next_run_is_the_effect_again(journal: Journal) -> None:
    name = _retrying(journal, effect_kind="external")
    row = row_of(journal.apply(Work(claims=[claim(name, wakes=1, effect_kind="external")])))
    assert row.effect_at == row.claimed_at


def test_nothing_runs_before_it_is_due(journal: Journal) -> None:
    name = _retrying(journal, delay_ms=60_000)
    assert kinds(journal.apply(Work(claims=[_wake(name)]))) == [VerdictKind.RETRYING]
    assert journal.unpublished(10, 0)[0].generation == 1


def test_a_resend_meanwhile_is_told_that_it_waits(journal: Journal) -> None:
    name = _retrying(journal)
    applied = journal.apply(Work(claims=[claim(name, attempt=2)]))
    assert kinds(applied) == [VerdictKind.RETRYING]
    assert (row_of(applied).attempt, row_of(applied).state) == (1, JournalState.RETRYING)


@pytest.mark.parametrize("generation", [2, 7])
def test_a_wake_up_of_another_generation_does_nothing(journal: Journal, generation: int) -> None:
    name = _retrying(journal)
    assert kinds(journal.apply(Work(claims=[_wake(name, generation)]))) == [VerdictKind.RETRYING]


def test_the_same_wake_up_runs_it_once(journal: Journal, open_journal: OpenJournal) -> None:
    name = _retrying(journal)
    twice = kinds(journal.apply(Work(claims=[_wake(name), _wake(name)])))
    assert twice == [VerdictKind.RUN, VerdictKind.RUNNING]
    assert kinds(open_journal("peer").apply(Work(claims=[_wake(name)]))) == [VerdictKind.RUNNING]


def test_an_old_wake_up_does_not_pass_for_a_later_run_of_our_own(journal: Journal) -> None:
    name = _retrying(journal)
    journal.apply(Work(claims=[_wake(name)]))
    journal.apply(Work(finishes=[_waits(name, 2)]))
    assert kinds(journal.apply(Work(claims=[_wake(name, 2)]))) == [VerdictKind.RUN]
    # As after a call of unknown outcome: nobody holds it.
    old = journal.apply(Work(claims=[_wake(name, 1)]), tried=[name])
    assert kinds(old) == [VerdictKind.RUNNING]
    again = journal.apply(Work(claims=[_wake(name, 2)]), tried=[name])
    assert kinds(again) == [VerdictKind.RUN]
    assert again.verdicts[0].retried.runs == 2


def test_a_wake_up_without_a_row_makes_none(journal: Journal, database: Database) -> None:
    applied = journal.apply(Work(claims=[_wake(new_id())]))
    assert kinds(applied) == [VerdictKind.ANSWERED]
    assert applied.verdicts[0].row is None
    assert database.query("SELECT count(*) AS n FROM onceward_request") == [{"n": 0}]


def test_a_wake_up_of_another_payload_is_a_mismatch(journal: Journal) -> None:
    name = _retrying(journal)
    assert kinds(journal.apply(Work(claims=[_wake(name, sha=OTHER_SHA)]))) == [VerdictKind.MISMATCH]


@pytest.mark.parametrize(
    "state",
    [JournalState.FAILED, JournalState.SUCCEEDED, JournalState.IN_DOUBT, JournalState.EXPIRED],
)
def test_what_has_ended_is_not_woken_up(journal: Journal, state: JournalState) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=state, resend=True)]))
    (kind,) = kinds(journal.apply(Work(claims=[_wake(name, attempt=5)])))
    assert kind in (VerdictKind.ANSWERED, VerdictKind.IN_DOUBT)


@pytest.mark.parametrize("wakes", [0, 1])
def test_whoever_comes_after_the_deadline_ends_it(
    journal: Journal, database: Database, wakes: int
) -> None:
    name = _retrying(journal)
    database.change("UPDATE onceward_request SET deadline_at = :past", past=PAST)
    applied = journal.apply(Work(claims=[claim(name, attempt=2, wakes=wakes, deadline_at=PAST)]))
    assert kinds(applied) == [VerdictKind.EXPIRED]
    row = row_of(applied)
    assert (row.state, row.generation, row.due_at) == ("EXPIRED", 1, None)
    over_s = ((row.finished_at or 0) - PAST) // 1000
    assert (row.code, row.message) == (DEADLINE_OVER, over_message(over_s))


def test_waiting_again_and_again_counts_the_runs_of_the_attempt(
    journal: Journal, database: Database
) -> None:
    name = _retrying(journal)
    counts = []
    for generation in (1, 2, 3):
        (verdict,) = journal.apply(Work(claims=[_wake(name, generation)])).verdicts
        counts.append(verdict.retried.runs)
        journal.apply(Work(finishes=[_waits(name, generation + 1)]))
    assert counts == [1, 2, 3]
    journal.apply(Work(claims=[_wake(name, 4)]))
    journal.apply(Work(finishes=[finish(name, 5, JournalState.FAILED, resend=True)]))
    (reopened,) = journal.apply(Work(claims=[claim(name, attempt=2)])).verdicts
    assert reopened.retried == RetriedRuns()
    journal.apply(Work(finishes=[_waits(name, 6)]))
    (verdict,) = journal.apply(Work(claims=[_wake(name, 6, attempt=2)])).verdicts
    assert verdict.retried.runs == 1
    runs = database.query(
        "SELECT generation, outcome FROM onceward_run WHERE request_id = :name ORDER BY id",
        name=name,
    )
    assert [one["outcome"] for one in runs] == ["RETRYING"] * 4 + ["FAILED", "RETRYING"]


def test_a_run_that_died_during_a_retry_is_followed_with_its_count_and_is_no_crash_loop(
    journal: Journal,
) -> None:
    name = _retrying(journal)
    for generation in (1, 2, 3):
        journal.apply(Work(claims=[_wake(name, generation)]))
        journal.apply(Work(finishes=[_waits(name, generation + 1)]))
    journal.apply(Work(claims=[_wake(name, 4)]))
    wish = takeover(name, 5, TakeoverKind.EXCLUDED, "CHILD_DIED", "marked")
    result = journal.apply(Work(takeovers=[wish]), held=[(name, 5)]).takeovers[name, 5]
    assert (result.kind, result.retried.runs) == ("GRANTED", 4)


def test_what_was_not_woken_up_is_found_the_oldest_first(journal: Journal) -> None:
    late = [_retrying(journal), _retrying(journal)]
    _retrying(journal, delay_ms=60_000)
    found = journal.overdue_retries(["payments", "refunds"], 10, 0)
    assert [one.row.request_id for one in found] == late
    assert all(not one.is_too_late and one.retried == RetriedRuns() for one in found)
    assert journal.overdue_retries(["refunds"], 10, 0) == []
    assert journal.overdue_retries(["payments"], 10, 60_000) == []
    assert len(journal.overdue_retries(["payments"], 1, 0)) == 1


def test_what_was_not_woken_up_comes_page_after_page_and_each_of_it_once(
    journal: Journal, database: Database
) -> None:
    late = [_retrying(journal) for _ in range(7)]
    due = dict(zip(late, [30, 10, 20, 20, 20, 10, 40], strict=True))
    for name, due_at in due.items():
        database.change(
            "UPDATE onceward_request SET due_at = :due_at WHERE request_id = :name",
            due_at=due_at,
            name=name,
        )
    found: list[str] = []
    lengths: list[int] = []
    cursor = DueCursor()
    while page := journal.overdue_retries(["payments"], 2, 0, cursor=cursor):
        found += [one.row.request_id for one in page]
        lengths.append(len(page))
        cursor = DueCursor.behind(page[-1].row)
    assert lengths == [2, 2, 2, 1]
    assert found == sorted(late, key=lambda name: (due[name], name))


def test_what_is_found_overdue_comes_with_its_count(journal: Journal) -> None:
    name = _retrying(journal)
    journal.apply(Work(claims=[_wake(name)]))
    journal.apply(Work(finishes=[_waits(name, 2)]))
    (found,) = journal.overdue_retries(["payments"], 10, 0)
    assert (found.row.generation, found.retried.runs) == (2, 1)


def test_a_wait_without_a_payload_ends_as_failed_and_one_beyond_its_deadline_as_expired(
    journal: Journal, database: Database
) -> None:
    gone, late = _retrying(journal), _retrying(journal)
    database.change(
        "UPDATE onceward_request SET deadline_at = :past WHERE request_id = :name",
        past=PAST,
        name=late,
    )
    found = {one.row.request_id: one for one in journal.overdue_retries(["payments"], 10, 0)}
    assert (found[gone].is_too_late, found[late].is_too_late) == (False, True)
    ended = journal.end_retries([one.row for one in found.values()])
    over_s = {one.request_id: ((one.finished_at or 0) - PAST) // 1000 for one in ended}
    assert {one.request_id: (one.state, one.code) for one in ended} == {
        gone: ("FAILED", "PAYLOAD_GONE"),
        late: ("EXPIRED", DEADLINE_OVER),
    }
    assert over_message(over_s[late]) in {one.message for one in ended}
    assert journal.end_retries([one.row for one in found.values()]) == []


def test_what_runs_again_by_now_is_not_ended(journal: Journal) -> None:
    name = _retrying(journal)
    (found,) = journal.overdue_retries(["payments"], 10, 0)
    journal.apply(Work(claims=[_wake(name)]))
    assert journal.end_retries([found.row]) == []


def test_a_finish_that_waits_is_told_when_it_is_due(journal: Journal) -> None:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    result = journal.apply(Work(finishes=[_waits(name, delay_ms=5)])).finished[name, 1]
    (row,) = journal.unpublished(10, 0)
    assert result.kind is FinishKind.WRITTEN
    assert (result.due_at, row.code) == (row.due_at, "BANK_BUSY")
