"""Claims of requests that keep the order of their key, by one worker or several."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import event

from consumer.journal import Claim, ClaimVerdict, Finish, Journal, JournalState, VerdictKind, Work
from consumer.journal.commits import KEYS_AT_ONCE
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import (
    OTHER_SHA,
    PAST,
    claim,
    finish,
    index_of_open,
    kinds,
    new_id,
)
from tests.eventually import eventually

RUN, HELD = VerdictKind.RUN, VerdictKind.HELD


def ordered(request_id: str, key: str = "k", **facts: object) -> Claim:
    return claim(request_id, **facts)._replace(order_key=key)  # type: ignore[arg-type]


def verdict_of(journal: Journal, wish: Claim) -> ClaimVerdict:
    (verdict,) = journal.apply(Work(claims=[wish])).verdicts
    return verdict


def states(database: Database, group: str) -> dict[str, str]:
    rows = database.query(
        'SELECT request_id, state FROM onceward_request WHERE "group" = :name', name=group
    )
    return {row["request_id"]: row["state"] for row in rows}


def test_a_request_is_held_while_another_one_of_its_key_runs_and_leaves_no_row(
    open_journal: OpenJournal, database: Database, group: str
) -> None:
    mine, theirs = open_journal("me"), open_journal("peer")
    head, next_one = new_id(), new_id()
    assert verdict_of(mine, ordered(head)).kind is RUN
    held = verdict_of(theirs, ordered(next_one))
    assert (held.kind, held.row, held.due_in_ms) == (HELD, None, 0)
    assert states(database, group) == {head: "CLAIMED"}
    mine.apply(Work(finishes=[finish(head)]))
    assert verdict_of(theirs, ordered(next_one)).kind is RUN


@pytest.mark.parametrize(
    "end",
    [
        {"state": JournalState.SUCCEEDED},
        {"state": JournalState.FAILED},
        {"state": JournalState.FAILED, "resend": True},
        {"state": JournalState.IN_DOUBT},
    ],
)
def test_every_end_lets_the_next_one_go(journal: Journal, end: dict[str, object]) -> None:
    head, next_one = new_id(), new_id()
    verdict_of(journal, ordered(head))
    journal.apply(Work(finishes=[finish(head, **end)]))  # type: ignore[arg-type]
    assert verdict_of(journal, ordered(next_one)).kind is RUN


def test_a_request_that_waits_for_its_next_run_holds_its_key_and_says_how_long(
    journal: Journal,
) -> None:
    head, next_one = new_id(), new_id()
    verdict_of(journal, ordered(head))
    journal.apply(Work(finishes=[finish(head, state=JournalState.RETRYING, delay_ms=60_000)]))
    held = verdict_of(journal, ordered(next_one))
    assert held.kind is HELD
    assert 55_000 < held.due_in_ms <= 60_000


def test_its_next_run_is_not_held_and_holds_the_key_until_it_ends(journal: Journal) -> None:
    head, next_one = new_id(), new_id()
    verdict_of(journal, ordered(head))
    journal.apply(Work(finishes=[finish(head, state=JournalState.RETRYING, delay_ms=0)]))
    assert verdict_of(journal, ordered(head, wakes=1)).kind is RUN
    assert verdict_of(journal, ordered(next_one)).kind is HELD
    journal.apply(Work(finishes=[finish(head, 2)]))
    assert verdict_of(journal, ordered(next_one)).kind is RUN


def test_what_was_set_to_run_again_by_hand_waits_for_what_runs_and_for_no_one_else(
    journal: Journal, database: Database
) -> None:
    """A redrive makes a request wait for its run while another one of its key may run."""
    one, other = new_id(), new_id()
    verdict_of(journal, ordered(one))
    journal.apply(Work(finishes=[finish(one, state=JournalState.FAILED)]))
    verdict_of(journal, ordered(other))
    database.change(
        "UPDATE onceward_request SET state = 'RETRYING', due_at = 1 WHERE request_id = :one",
        one=one,
    )
    assert verdict_of(journal, ordered(one, wakes=1)).kind is HELD
    journal.apply(Work(finishes=[finish(other, state=JournalState.RETRYING, delay_ms=0)]))
    assert verdict_of(journal, ordered(one, wakes=1)).kind is RUN, "or both would wait for ever"


def test_other_keys_other_groups_and_what_keeps_no_order_are_not_held(
    journal: Journal, open_journal: OpenJournal, group: str
) -> None:
    verdict_of(journal, ordered(new_id(), "k"))
    assert verdict_of(journal, ordered(new_id(), "other")).kind is RUN
    assert verdict_of(journal, claim(new_id())).kind is RUN
    elsewhere = open_journal(group=f"{group}-2")
    assert verdict_of(elsewhere, ordered(new_id(), "k")).kind is RUN


def test_what_runs_without_order_holds_nobody(journal: Journal) -> None:
    verdict_of(journal, claim(new_id()))
    assert verdict_of(journal, ordered(new_id())).kind is RUN


def test_of_one_key_in_one_batch_only_the_first_runs(journal: Journal) -> None:
    names = [new_id() for _ in range(4)]
    keys = ["k", "k", "l", "k"]
    batch = [ordered(name, key) for name, key in zip(names, keys, strict=True)]
    assert kinds(journal.apply(Work(claims=batch))) == [RUN, HELD, RUN, HELD]


def test_an_id_that_comes_twice_in_a_batch_is_decided_in_the_order_of_the_batch(
    journal: Journal,
) -> None:
    head, twice = new_id(), new_id()
    batch = [ordered(head), ordered(twice), ordered(twice, "l", sha=OTHER_SHA)]
    assert kinds(journal.apply(Work(claims=batch))) == [RUN, HELD, RUN]
    again = ordered(twice)
    assert verdict_of(journal, again).kind is VerdictKind.MISMATCH, "its id is another payload's"


def test_a_finish_and_the_next_claim_of_its_key_share_a_transaction(journal: Journal) -> None:
    head, next_one = new_id(), new_id()
    verdict_of(journal, ordered(head))
    applied = journal.apply(Work(finishes=[finish(head)], claims=[ordered(next_one)]))
    assert kinds(applied) == [RUN]


def test_what_has_ended_is_answered_although_its_key_is_held(journal: Journal) -> None:
    done, head = new_id(), new_id()
    verdict_of(journal, ordered(done))
    journal.apply(Work(finishes=[finish(done)]))
    verdict_of(journal, ordered(head))
    assert verdict_of(journal, ordered(done)).kind is VerdictKind.ANSWERED
    assert verdict_of(journal, ordered(done, sha=OTHER_SHA)).kind is VerdictKind.MISMATCH
    assert verdict_of(journal, ordered(head)).kind is VerdictKind.RUNNING


def test_a_resend_that_would_reopen_its_request_waits_for_the_key(journal: Journal) -> None:
    failed, head = new_id(), new_id()
    verdict_of(journal, ordered(failed))
    journal.apply(Work(finishes=[finish(failed, state=JournalState.FAILED, resend=True)]))
    verdict_of(journal, ordered(head))
    again = ordered(failed, attempt=2)
    assert verdict_of(journal, again).kind is HELD
    journal.apply(Work(finishes=[finish(head)]))
    assert verdict_of(journal, again).kind is RUN
    assert verdict_of(journal, ordered(new_id())).kind is HELD, "it has the key again"


def test_what_is_too_late_expires_at_once_although_its_key_is_held(journal: Journal) -> None:
    verdict_of(journal, ordered(new_id()))
    late = verdict_of(journal, ordered(new_id(), deadline_at=PAST))
    assert late.kind is VerdictKind.EXPIRED
    assert late.row is not None
    assert late.row.state == "EXPIRED"


def test_a_claim_of_unknown_outcome_is_not_held_by_itself(journal: Journal) -> None:
    one = ordered(new_id())
    assert kinds(journal.apply(Work(claims=[one]))) == [RUN]
    again = journal.apply(Work(claims=[one]), tried=[one.request_id])
    assert kinds(again) == [RUN], "the first answer never came"


def test_no_two_of_a_key_run_at_once_whoever_claims_them(
    open_journal: OpenJournal, database: Database, group: str
) -> None:
    """Three workers claim the same keys at the same moment, end what they got, and go on."""
    keys = [f"key-{number}" for number in range(8)]
    left = {key: [new_id() for _ in range(12)] for key in keys}
    running: dict[str, str] = {}
    lock = threading.Lock()
    twice: list[str] = []

    def work(worker: str) -> int:
        journal = open_journal(worker)
        dice = random.Random(worker)
        count = 0
        while any(left.values()):
            with lock:
                wanted = [(key, names[0]) for key, names in left.items() if names]
            dice.shuffle(wanted)
            applied = journal.apply(Work(claims=[ordered(name, key) for key, name in wanted]))
            ends: list[Finish] = []
            for (key, name), verdict in zip(wanted, applied.verdicts, strict=True):
                if verdict.kind is not RUN:
                    continue
                count += 1
                with lock:
                    if key in running:
                        twice.append(key)
                    running[key] = name
                ends.append(finish(name))
            with lock:
                for end in ends:
                    key = next(key for key, name in running.items() if name == end.request_id)
                    del running[key]
                    left[key].pop(0)
            journal.apply(Work(finishes=ends))
        return count

    with ThreadPoolExecutor(3) as threads:
        counts = list(threads.map(work, ["a", "b", "c"], timeout=120))
    assert twice == []
    assert sum(counts) == 8 * 12
    assert set(states(database, group).values()) == {"SUCCEEDED"}


def test_two_workers_that_claim_two_requests_of_a_key_at_one_moment_do_not_both_run(
    open_journal: OpenJournal, database: Database, group: str
) -> None:
    """The second claim comes while the first is not committed: it waits, and then is held."""
    mine, theirs = open_journal("me"), open_journal("peer")
    theirs.ping()
    asked, granted = threading.Event(), threading.Event()

    def pause(connection: object) -> None:
        asked.set()
        granted.wait(60)

    event.listen(mine._session._engine, "commit", pause)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(verdict_of, mine, ordered(new_id()))
        assert asked.wait(60)
        second = threads.submit(verdict_of, theirs, ordered(new_id()))
        second_is_early = second.done()
        eventually(lambda: _is_waiting(database) or second.done(), timeout_s=30)
        granted.set()
        assert first.result(60).kind is RUN
        assert second.result(60).kind is HELD
    assert not second_is_early
    assert sorted(states(database, group).values()) == ["CLAIMED"]


def _is_waiting(database: Database) -> bool:
    if database.engine.dialect.name == "sqlite":
        return True  # whoever comes second waits for the write lock, which nobody can look at
    # Those of this database: other tests wait for locks beside it.
    waiting = (
        "SELECT 1 AS it FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database ="
        " (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return bool(database.query(waiting))


def test_a_request_without_order_costs_not_one_statement_more(journal: Journal) -> None:
    def counted(claims: list[Claim]) -> list[str]:
        seen: list[str] = []

        def note(c: object, cursor: object, statement: str, *rest: object) -> None:
            seen.append(statement)

        event.listen(journal._session._engine, "before_cursor_execute", note)
        try:
            journal.apply(Work(claims=claims))
        finally:
            event.remove(journal._session._engine, "before_cursor_execute", note)
        return [one for one in seen if "onceward_batch" not in one or "SELECT" in one]

    journal.ping()
    plain = counted([claim(new_id())])
    assert not [one for one in plain if "pg_advisory" in one]
    assert len([one for one in plain if "onceward_request" in one]) == 1
    ordered_ones = counted([ordered(new_id())])
    searches = [one for one in ordered_ones if "onceward_request" in one or "open_request" in one]
    assert len(searches) == 2


def test_the_search_for_holders_goes_by_the_index(journal: Journal) -> None:
    engine = journal._session._engine
    found: list[tuple[str, Any]] = []

    def note(c: object, cursor: object, statement: str, parameters: Any, *rest: object) -> None:
        if "max(" in statement.lower():
            found.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    verdict_of(journal, ordered(new_id()))
    event.remove(engine, "before_cursor_execute", note)
    ((statement, parameters),) = found
    explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"
    with journal._session.transaction() as connection:
        if engine.dialect.name != "sqlite":
            # An empty table is read faster than an index; what counts is that it can be used.
            connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        plan = connection.exec_driver_sql(f"{explain} {statement}", parameters).all()
    assert index_of_open("order", engine.dialect.name) in " ".join(str(row) for row in plan)


def test_claims_of_very_many_keys_are_locked_in_parts(journal: Journal) -> None:
    names = [new_id() for _ in range(KEYS_AT_ONCE + 3)]
    ordered = [claim(name)._replace(order_key=name) for name in names]
    first, rest = Work(claims=ordered).cut(KEYS_AT_ONCE)
    assert rest is not None
    assert (len(first.claims), len(rest.claims)) == (KEYS_AT_ONCE, 3)
    again = claim(new_id())._replace(order_key=names[0])
    applied = journal.apply(Work(claims=[*ordered, again]))
    assert kinds(applied) == [*[VerdictKind.RUN] * len(names), VerdictKind.HELD]
