"""Requests that were changed since a moment are told by new runs and actions, on both databases."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Table

from consumer.journal import Journal, JournalState, Work, appended
from consumer.journal.appended import AppendMark
from consumer.journal.lookup import Lookup
from consumer.journal.redrive.redrive_rule import RedriveCandidate
from consumer.journal.redrive.resolving import PersonDecisions
from consumer.journal.tables import action, run
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import claim, finish, new_id


@pytest.fixture
def lookup(database: Database, group: str) -> Iterator[Lookup]:
    with Lookup(database.url, group=group) as made:
        yield made


def _fail(journal: Journal, name: str, generation: int = 1, *, resend: bool = False) -> None:
    journal.apply(Work(claims=[claim(name, attempt=generation)]))
    ended = finish(name, generation, JournalState.FAILED, code="X", resend=resend)
    journal.apply(Work(finishes=[ended]))


def test_a_run_that_follows_and_the_decision_of_a_person_are_told(
    lookup: Lookup, journal: Journal, database: Database, group: str
) -> None:
    began = lookup.append_mark()
    assert began == AppendMark(0, 0)
    first, again, decided = new_id(), new_id(), new_id()
    for name in (first, again, decided):
        _fail(journal, name, resend=name == again)
    failed = lookup.append_mark()
    assert lookup.changed_between(began, failed) == frozenset()
    journal.apply(Work(claims=[claim(again, attempt=2)]))
    claimed = lookup.append_mark()
    sha256 = claim(decided).payload_sha256
    for one in (group, "another"):
        decisions = PersonDecisions(database.url, group=one)
        wanted = [RedriveCandidate(decided if one == group else new_id(), None, sha256, 0)]
        assert decisions.discard(wanted, by="ann", reason="a test") == [None]
        decisions.close()
    done = lookup.append_mark()
    assert lookup.changed_between(failed, claimed) == frozenset({again})
    assert lookup.changed_between(claimed, done) == frozenset({decided})
    assert lookup.changed_between(began, done) == frozenset({again, decided})
    assert lookup.changed_between(done, done) == frozenset()


def test_where_too_many_were_changed_or_commits_are_lost_any_may_be(
    lookup: Lookup, database: Database, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(appended, "MOST_APPENDED", 2)
    names = [new_id() for _ in range(3)]
    marks = [lookup.append_mark()]
    for name in names:
        database.change(
            'INSERT INTO onceward_action ("group", request_id, action, "by", at) '
            "VALUES (:group, :id, 'discard', 'ann', 5)",
            group=group,
            id=name,
        )
        marks.append(lookup.append_mark())
    assert lookup.changed_between(marks[0], marks[2]) == frozenset(names[:2])
    assert lookup.changed_between(marks[0], marks[3]) is None
    assert lookup.changed_between(marks[1], marks[0]) is None


@pytest.mark.parametrize("table", [run, action], ids=["run", "action"])
def test_they_are_read_by_their_numbers(database: Database, table: Table) -> None:
    wanted = appended._changed_in(table, "some")
    plan = database.plan(wanted, this_group="g", some_after=1, some_until=2)
    by_key = (f"{table.name}_pkey", f"{table.name} USING INTEGER PRIMARY KEY")
    assert any(one in plan for one in by_key), plan
