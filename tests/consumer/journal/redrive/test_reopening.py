"""Reopening failures, on both databases: by compare-and-set, and never twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from consumer.journal import Journal, JournalState, VerdictKind, Work
from consumer.journal.records import Published
from consumer.journal.redrive.redrive_row import RedriveStopped, SavedProgress
from consumer.journal.redrive.redrive_rule import Redrivable, RedriveCandidate, RedriveWish
from consumer.journal.redrive.redrive_work import RedriveWork
from consumer.journal.redrive.reopening import RedriveVerdict, replacement_id
from tests.consumer.journal.conftest import Database, closing_all
from tests.consumer.journal.samples import SHA, claim, finish, kinds, new_id, row_of
from tests.eventually import eventually

OpenWork = Callable[..., RedriveWork]
VALID_MS = 60_000
SPANS = {("payments.g.dlq", 0): (0, 10)}


@pytest.fixture
def open_work(database: Database, group: str) -> Iterator[OpenWork]:
    """Yield a factory `open_work(owner)`; what it opens is closed afterwards."""
    with closing_all(lambda name: RedriveWork(database.url, group=group, owner=name)) as open_one:
        yield open_one


@pytest.fixture
def work(open_work: OpenWork) -> RedriveWork:
    """Return the work of process `me`, which has begun the redrive `mine`."""
    made = open_work()
    made.begin("mine", by="zoe", reason=None, filter_text="{}", spans=SPANS)
    return made


def fail(journal: Journal, *, resend: bool = False) -> str:
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    ended = finish(name, state=JournalState.FAILED, code="NO", message="no", resend=resend)
    journal.apply(Work(finishes=[ended]))
    return name


def letter(name: str, generation: int = 1) -> RedriveCandidate:
    return RedriveCandidate(name, generation, SHA, 0)


def reopen(
    work: RedriveWork,
    *names: str,
    redrive: str = "mine",
    so_far: SavedProgress | None = None,
    **wish: object,
) -> list[RedriveVerdict]:
    return work.reopen(
        [letter(name) for name in names],
        RedriveWish(redrive, **wish),  # type: ignore[arg-type]
        valid_ms=VALID_MS,
        by="zoe",
        reason="open again",
        so_far=so_far or SavedProgress({}, {}, names, {}),
    )


def test_once_more_leaves_what_another_redrive_has_sent_since_the_look(
    work: RedriveWork, open_work: OpenWork
) -> None:
    name, other = new_id(), open_work("another")
    other.begin("other", by="bob", reason=None, filter_text="{}", spans=SPANS)
    looked_at = work.moment()
    (found,) = reopen(other, name, redrive="other", takes_unknown=True)
    assert found.kind is Redrivable.SEND_UNKNOWN
    again: dict[str, Any] = {"takes_unknown": True, "sends_again": True}
    (found,) = reopen(work, name, began_at=looked_at, **again)
    assert found.kind is Redrivable.SENT_BEFORE
    sent_by_now = work.moment()
    later = eventually(lambda: (at := work.moment()) > sent_by_now and at, timeout_s=30)
    (found,) = reopen(work, name, began_at=later, **again)
    assert (found.kind, found.sent_before) == (Redrivable.SEND_UNKNOWN, 1)


def test_a_reopened_failure_takes_one_further_attempt_and_no_second(
    journal: Journal, work: RedriveWork, database: Database, now_ms_of: Callable[[Database], int]
) -> None:
    name = fail(journal)
    journal.apply(Work(published=[Published(name, 1, JournalState.FAILED)]))
    assert kinds(journal.apply(Work(claims=[claim(name, attempt=2)]))) == [VerdictKind.ANSWERED]
    before_ms = now_ms_of(database)
    ((kind, row, _),) = reopen(work, name)
    assert kind is Redrivable.SEND and row is not None
    assert (row.state, row.resend, row.attempt, row.generation) == (JournalState.FAILED, True, 1, 1)
    (stands,) = database.query("SELECT * FROM onceward_request WHERE request_id = :n", n=name)
    assert {column: stands[column] for column in row._fields} == row._asdict()
    assert (row.code, row.message, row.published_at) == ("NO", "no", None)
    assert before_ms + VALID_MS <= row.deadline_at <= now_ms_of(database) + VALID_MS
    assert kinds(journal.apply(Work(claims=[claim(name, attempt=1)]))) == [VerdictKind.ANSWERED]
    applied = journal.apply(Work(claims=[claim(name, attempt=2)]))
    assert kinds(applied) == [VerdictKind.RUN]
    assert (row_of(applied).generation, row_of(applied).effect_at) == (2, None)
    journal.apply(Work(finishes=[finish(name, 2, JournalState.FAILED)]))
    assert kinds(journal.apply(Work(claims=[claim(name, attempt=3)]))) == [VerdictKind.ANSWERED]
    (kept,) = database.query("SELECT * FROM onceward_run WHERE request_id = :name", name=name)
    assert (kept["generation"], kept["outcome"]) == (1, "FAILED")


def test_of_all_letters_each_failure_is_reopened_once(journal: Journal, work: RedriveWork) -> None:
    name = fail(journal)
    found = [one.kind for one in reopen(work, name, name)]
    assert found == [Redrivable.SEND, Redrivable.DOUBLE]
    assert [one.kind for one in reopen(work, name)] == [Redrivable.SENT]


def test_another_redrive_finds_it_reopened(
    journal: Journal, work: RedriveWork, open_work: OpenWork
) -> None:
    name = fail(journal)
    other = open_work("other")
    other.begin("other", by="bob", reason=None, filter_text="{}", spans=SPANS)
    reopen(work, name)
    assert [one.kind for one in reopen(other, name, redrive="other")] == [Redrivable.ON_ITS_WAY]


def test_of_two_redrives_at_once_one_has_it(
    journal: Journal, work: RedriveWork, open_work: OpenWork
) -> None:
    names = [fail(journal) for _ in range(50)]
    other = open_work("other")
    other.begin("other", by="bob", reason=None, filter_text="{}", spans=SPANS)
    at_once = threading.Barrier(2)
    found: dict[str, list[RedriveVerdict]] = {}

    def one(which: RedriveWork, redrive: str, wanted: list[str]) -> None:
        at_once.wait(60)
        found[redrive] = reopen(which, *wanted, redrive=redrive)

    threads = [
        threading.Thread(target=one, args=(work, "mine", names)),
        threading.Thread(target=one, args=(other, "other", names[::-1])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    sent = [one.kind for part in found.values() for one in part].count(Redrivable.SEND)
    assert sent == len(names)


def test_the_failure_is_noted_with_who_and_why(
    journal: Journal, work: RedriveWork, database: Database
) -> None:
    name = fail(journal)
    reopen(work, name)
    (noted,) = database.query("SELECT * FROM onceward_action WHERE request_id = :name", name=name)
    assert (noted["action"], noted["by"], noted["reason"]) == ("redrive", "zoe", "open again")
    assert (noted["redrive_id"], noted["generation"]) == ("mine", 1)


def test_what_kafka_does_not_take_is_closed_again_unless_it_runs(
    journal: Journal, work: RedriveWork, database: Database
) -> None:
    quiet, taken = fail(journal), fail(journal)
    reopen(work, quiet, taken)
    journal.apply(Work(claims=[claim(taken, attempt=2)]))
    names = [(quiet, 1), (taken, 1)]
    (row,) = work.close_again("mine", names, by="zoe", reason="too large")
    assert (row.request_id, row.resend, row.published_at) == (quiet, False, None)
    assert kinds(journal.apply(Work(claims=[claim(quiet, attempt=2)]))) == [VerdictKind.ANSWERED]
    (running,) = database.query(
        "SELECT state FROM onceward_request WHERE request_id = :name", name=taken
    )
    assert running["state"] == "CLAIMED"


def test_a_replaced_failure_is_closed_and_both_are_noted(
    journal: Journal, work: RedriveWork, database: Database
) -> None:
    name = fail(journal)
    ((kind, row, _),) = reopen(work, name, replaces=True)
    assert kind is Redrivable.SEND and row is not None and not row.resend
    new = replacement_id("mine", name)
    assert new != replacement_id("other", name)
    noted = database.query("SELECT * FROM onceward_action ORDER BY id")
    assert [(one["request_id"], one["action"], one["reason"]) for one in noted] == [
        (name, "discard", f"replaced by {new}"),
        (new, "redrive", f"replaces {name}"),
    ]
    # Could it not be sent, the failure is open again.
    assert work.close_again("mine", [(name, 1)], by="zoe", reason="too large") == []
    judged = work.judge([letter(name)], RedriveWish("other"))
    assert [one.kind for one in judged] == [Redrivable.SEND]


def test_what_is_not_this_processs_any_more_reopens_nothing(
    journal: Journal, work: RedriveWork, open_work: OpenWork, database: Database
) -> None:
    name = fail(journal)
    assert work.cancel("mine", by="bob", reason="enough")
    with pytest.raises(RedriveStopped):
        reopen(work, name)
    stands = work.find("mine")
    assert stands is not None and stands.state == "cancelled"
    assert open_work("other").take(stands, by="bob", reason=None)
    with pytest.raises(RedriveStopped):
        reopen(work, name)
    (row,) = database.query("SELECT resend FROM onceward_request WHERE request_id = :n", n=name)
    assert row["resend"] == 0


def test_a_reopening_saves_what_was_done_before_it_and_none_does_without_the_other(
    journal: Journal, work: RedriveWork, open_work: OpenWork, database: Database
) -> None:
    before, name, late = fail(journal), fail(journal), fail(journal)
    done = SavedProgress({("d", 0): 5}, {("t", 0): 7}, {name}, {"sent": 1})
    told = Published(before, 1, JournalState.FAILED)
    reopen(work, name, so_far=done._replace(published=(told,)))
    stands = work.find("mine")
    assert stands is not None
    assert (stands.positions, stands.marks) == (done.positions, done.marks)
    assert (stands.unconfirmed, stands.counts) == ([name], done.counts)
    rows = database.query("SELECT request_id, resend, published_at FROM onceward_request")
    found = {row["request_id"]: (row["resend"], row["published_at"] is not None) for row in rows}
    assert found == {before: (0, True), name: (1, False), late: (0, False)}
    assert open_work("other").take(stands, by="bob", reason=None)
    with pytest.raises(RedriveStopped):
        reopen(work, late, so_far=SavedProgress({("d", 0): 6}, {}, {late}, {}))
    assert database.query("SELECT resend FROM onceward_request WHERE request_id = :n", n=late) == [
        {"resend": 0}
    ]
