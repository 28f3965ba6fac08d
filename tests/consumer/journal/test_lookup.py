"""Looking requests up: rows, their history, and what people did, on both databases."""

from collections.abc import Iterator

import pytest

from consumer.journal import Journal, JournalState, JournalVersionError, Work
from consumer.journal.lookup import Lookup
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import claim, finish, new_id


@pytest.fixture
def lookup(database: Database, group: str) -> Iterator[Lookup]:
    with Lookup(database.url, group=group) as made:
        yield made


def test_rows_are_found_by_id_those_of_the_group_alone(
    lookup: Lookup, journal: Journal, database: Database
) -> None:
    name, another = new_id(), new_id()
    journal.apply(Work(claims=[claim(name), claim(another)]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED, code="X")]))
    rows, now = lookup.rows([name, another, "nobody"])
    assert {one: row.state for one, row in rows.items()} == {name: "FAILED", another: "CLAIMED"}
    assert now >= (rows[name].finished_at or 0) > 0
    assert lookup.rows([]) == ({}, 0)
    with Lookup(database.url, group="another") as others:
        assert others.rows([name]) == ({}, 0)
        assert others.runs(name) == []


def test_earlier_runs_come_in_their_order(lookup: Lookup, journal: Journal) -> None:
    name = new_id()
    for attempt in (1, 2, 3):
        journal.apply(Work(claims=[claim(name, attempt=attempt)]))
        ended = finish(name, attempt, JournalState.FAILED, code="X", resend=True)
        journal.apply(Work(finishes=[ended]))
    runs = lookup.runs(name)
    assert [(one.generation, one.attempt, one.outcome) for one in runs] == [
        (1, 1, "FAILED"),
        (2, 2, "FAILED"),
    ]
    assert all(one.owner == "me" and one.ended_at is not None for one in runs)
    assert len(lookup.runs(name, limit=1)) == 1


def test_what_people_did_is_found_by_id(lookup: Lookup, database: Database, group: str) -> None:
    name = new_id()
    for action, reason in (("discard", "a test"), ("cancel", None)):
        database.change(
            'INSERT INTO onceward_action ("group", request_id, action, "by", at, reason) '
            "VALUES (:group, :id, :action, 'ann@host', 5, :reason)",
            group=group,
            id=name,
            action=action,
            reason=reason,
        )
    found = lookup.actions([name, "nobody"])
    assert [(one.action, one.by, one.reason) for one in found[name]] == [
        ("discard", "ann@host", "a test"),
        ("cancel", "ann@host", None),
    ]
    assert set(found) == {name}
    assert lookup.actions([]) == {}


def test_a_journal_without_tables_is_said(journal_url: str) -> None:
    with Lookup(journal_url, group="g") as nothing, pytest.raises(JournalVersionError):
        nothing.rows(["a"])
