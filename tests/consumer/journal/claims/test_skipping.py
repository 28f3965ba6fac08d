"""Requests that end in another's stead: rows that name one that has succeeded, and no others."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import event

from consumer.journal import Journal, JournalState, Skip, VerdictKind, Work
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import FAR, OTHER_SHA, PAST, claim, finish, kinds, new_id


def ordered(request_id: str, **facts: Any) -> Any:
    return claim(request_id, **facts)._replace(order_key="k")


def skip(request_id: str, by: str, generation: int = 1, **facts: Any) -> Skip:
    return Skip(ordered(request_id, **facts), by, generation)


def stands(database: Database, group: str) -> dict[str, tuple[str, str | None]]:
    rows = database.query(
        'SELECT request_id, state, "by" FROM onceward_request WHERE "group" = :name', name=group
    )
    return {row["request_id"]: (row["state"], row["by"]) for row in rows}


def running(journal: Journal) -> str:
    one = new_id()
    assert kinds(journal.apply(Work(claims=[ordered(one)]))) == [VerdictKind.RUN]
    return one


def test_what_waited_ends_in_the_transaction_of_the_finish_and_names_the_one(
    journal: Journal, database: Database, group: str
) -> None:
    head, others = running(journal), [new_id() for _ in range(499)]
    begun: list[str] = []
    # SQLAlchemy tells of each statement of this journal, whatever the database.
    event.listen(
        journal._session._engine, "before_cursor_execute", lambda *told: begun.append(told[2])
    )
    applied = journal.apply(
        Work(finishes=[finish(head)], skips=[skip(one, head, attempt=2) for one in others])
    )
    assert {row.request_id for row in applied.skipped} == set(others)
    found = stands(database, group)
    assert found == {head: ("SUCCEEDED", None)} | dict.fromkeys(others, ("SKIPPED", head))
    assert len(begun) < 12, "as many statements as for one"
    (row,) = database.query(
        'SELECT * FROM onceward_request WHERE "group" = :name AND request_id = :one',
        name=group,
        one=others[0],
    )
    told = next(one for one in applied.skipped if one.request_id == others[0])
    assert {name: row[name] for name in told._fields if name != "resend"} == {
        name: value for name, value in told._asdict().items() if name != "resend"
    }
    assert (told.claimed_at, told.effect_at, told.attempt, told.owner) == (None, None, 2, "me")
    assert told.finished_at is not None and told.published_at is None


@pytest.mark.parametrize(
    "end",
    [
        {"state": JournalState.FAILED},
        {"state": JournalState.FAILED, "resend": True},
        {"state": JournalState.IN_DOUBT},
        {"state": JournalState.RETRYING, "delay_ms": 60_000},
        {"state": JournalState.SKIPPED, "code": "NOT_APPLICABLE"},
    ],
)
def test_nothing_ends_in_the_stead_of_one_that_has_not_succeeded(
    journal: Journal, database: Database, group: str, end: dict[str, Any]
) -> None:
    head, other = running(journal), new_id()
    applied = journal.apply(Work(finishes=[finish(head, **end)], skips=[skip(other, head)]))
    assert applied.skipped == ()
    assert stands(database, group) == {head: (end["state"], None)}


def test_nor_of_one_that_runs_is_unknown_or_succeeded_in_another_generation(
    journal: Journal, database: Database, group: str
) -> None:
    head = running(journal)
    assert journal.apply(Work(skips=[skip(new_id(), head)])).skipped == ()
    assert journal.apply(Work(skips=[skip(new_id(), new_id())])).skipped == ()
    applied = journal.apply(Work(finishes=[finish(head)], skips=[skip(new_id(), head, 2)]))
    assert applied.skipped == ()
    assert stands(database, group) == {head: ("SUCCEEDED", None)}


def test_the_success_of_another_group_is_none(
    open_journal: OpenJournal, database: Database, group: str
) -> None:
    journal, other_group = open_journal("me"), open_journal("peer", group=f"{group}-other")
    head = running(other_group)
    other_group.apply(Work(finishes=[finish(head)]))
    assert journal.apply(Work(skips=[skip(new_id(), head)])).skipped == ()


def test_what_is_past_its_deadline_expires_and_is_not_skipped(
    journal: Journal, database: Database, group: str
) -> None:
    head, late, other = running(journal), new_id(), new_id()
    applied = journal.apply(
        Work(finishes=[finish(head)], skips=[skip(late, head, deadline_at=PAST), skip(other, head)])
    )
    assert {row.request_id: (row.state, row.by) for row in applied.skipped} == {
        late: ("EXPIRED", None),
        other: ("SKIPPED", head),
    }
    assert stands(database, group)[late] == ("EXPIRED", None)


def test_what_has_a_row_already_stays_as_it_is(
    open_journal: OpenJournal, database: Database, group: str
) -> None:
    mine, theirs = open_journal("me"), open_journal("peer")
    head, elsewhere, failed, done = running(mine), new_id(), new_id(), new_id()
    theirs.apply(Work(claims=[claim(elsewhere), claim(failed), claim(done)]))
    theirs.apply(
        Work(finishes=[finish(failed, state=JournalState.FAILED, resend=True), finish(done)])
    )
    wishes = [skip(one, head, attempt=2) for one in (elsewhere, failed, done)]
    assert mine.apply(Work(finishes=[finish(head)], skips=wishes)).skipped == ()
    found = stands(database, group)
    states = [found[one][0] for one in (elsewhere, failed, done)]
    assert states == ["CLAIMED", "FAILED", "SUCCEEDED"]


def test_the_same_again_after_an_unknown_outcome_is_answered_with_what_was_written(
    journal: Journal, database: Database, group: str
) -> None:
    head, others = running(journal), [new_id(), new_id()]
    wishes = [skip(one, head) for one in others]
    journal.apply(Work(finishes=[finish(head)], skips=wishes))
    again = journal.apply(Work(finishes=[finish(head)], skips=[*wishes, skip(new_id(), head)]))
    assert len(again.skipped) == 3
    assert {row.by for row in again.skipped} == {head}
    other_payload = skip(others[0], head, sha=OTHER_SHA)
    assert journal.apply(Work(skips=[other_payload])).skipped == ()


def test_a_skipped_request_is_answered_when_it_is_sent_again(journal: Journal) -> None:
    head, other = running(journal), new_id()
    journal.apply(Work(finishes=[finish(head)], skips=[skip(other, head)]))
    (verdict,) = journal.apply(Work(claims=[ordered(other, attempt=2)])).verdicts
    assert verdict.kind is VerdictKind.ANSWERED
    assert verdict.row is not None
    assert (verdict.row.state, verdict.row.by, verdict.row.attempt) == ("SKIPPED", head, 1)


def test_what_the_database_refuses_of_one_ends_the_others(
    journal: Journal, database: Database, group: str
) -> None:
    head, others = running(journal), [new_id() for _ in range(5)]
    wishes = [skip(one, head) for one in others]
    wishes[2] = skip(others[2], head, attempt=2**70)
    applied = journal.apply(Work(finishes=[finish(head)], skips=wishes, claims=[claim(new_id())]))
    assert {row.request_id for row in applied.skipped} == {*others} - {others[2]}
    assert applied.finished[head, 1].row is None
    assert len(applied.verdicts) == 1
    assert others[2] not in stands(database, group)


def test_a_peer_that_claims_the_same_requests_meanwhile_runs_them_or_is_answered(
    open_journal: OpenJournal, database: Database, group: str
) -> None:
    """Two workers that know the same requests, as after a rebalance."""
    mine, theirs = open_journal("me"), open_journal("peer")
    head, others = running(mine), [new_id() for _ in range(200)]
    mine.apply(Work(finishes=[finish(head)]))
    told: dict[str, VerdictKind] = {}

    def claim_all() -> None:
        for start in range(0, len(others), 10):
            batch = list(reversed(others))[start : start + 10]
            found = theirs.apply(Work(claims=[claim(one) for one in batch]))
            told.update(zip(batch, kinds(found), strict=True))

    thread = threading.Thread(target=claim_all)
    thread.start()
    skipped = set()
    for start in range(0, len(others), 10):
        found = mine.apply(Work(skips=[skip(one, head) for one in others[start : start + 10]]))
        skipped |= {row.request_id for row in found.skipped}
    thread.join(60)
    ran = {one for one, kind in told.items() if kind is VerdictKind.RUN}
    assert set(told) == set(others)
    assert not ran & skipped
    assert ran | skipped == set(others)


def test_a_success_that_no_run_wrote_in_time_lets_nothing_be_skipped(
    open_journal: OpenJournal, database: Database, group: str
) -> None:
    """The claim went to another generation while its worker stood still."""
    mine = open_journal("me")
    head, other = running(mine), new_id()
    database.change(
        "UPDATE onceward_request SET generation = 2, owner = 'peer' WHERE request_id = :one",
        one=head,
    )
    applied = mine.apply(Work(finishes=[finish(head)], skips=[skip(other, head)]))
    assert (applied.skipped, stands(database, group)) == ((), {head: ("CLAIMED", None)})


def test_its_outcome_waits_to_be_told_where_one_is_wanted(
    open_journal: OpenJournal, database: Database, group: str
) -> None:
    journal = open_journal("me", outcome_topics=["payments"])
    head, other = running(journal), new_id()
    journal.apply(Work(finishes=[finish(head)], skips=[skip(other, head, deadline_at=FAR)]))
    wanted = database.query(
        "SELECT outcome_generation FROM onceward_request WHERE request_id = :one", one=other
    )
    assert wanted == [{"outcome_generation": 0}]
