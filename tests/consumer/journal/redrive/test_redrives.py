"""The rows of redrives, on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from consumer.journal import Journal, JournalState, Work
from consumer.journal.records import Published
from consumer.journal.redrive.redrive_row import RedriveStopped, SavedProgress
from consumer.journal.redrive.redrive_work import RedriveWork
from tests.consumer.journal.conftest import Database
from tests.consumer.journal.samples import claim, finish, new_id

SPANS = {("a.dlq", 0): (0, 7), ("a.dlq", 1): (3, 2**40)}


@pytest.fixture
def work(database: Database, group: str) -> Iterator[RedriveWork]:
    """Yield the work of process `me`, which has begun the redrive `mine`."""
    made = RedriveWork(database.url, group=group, owner="me")
    made.begin("mine", by="zoe", reason="why", filter_text='{"x": 1}', spans=SPANS)
    yield made
    made.close()


def test_a_redrive_says_what_it_was_asked_and_how_far_it_is(
    work: RedriveWork, journal: Journal, database: Database
) -> None:
    found = work.find("mine")
    assert found is not None
    assert (found.by, found.reason, found.filter) == ("zoe", "why", '{"x": 1}')
    assert (found.state, found.owner, found.spans) == ("running", "me", SPANS)
    assert (found.positions, found.marks, found.unconfirmed, found.counts) == ({}, {}, [], {})
    assert 0 <= found.silent_ms < 60_000
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    journal.apply(Work(finishes=[finish(name, state=JournalState.FAILED)]))
    so_far = SavedProgress(
        positions={("a.dlq", 1): 5},
        marks={("a", 0): 9},
        unconfirmed={"y", "x"},
        counts={"sent": 3},
        named={"x": "sent"},
        published=[Published(name, 1, JournalState.FAILED)],
        under_way={"sent": 2, "done": 1},
    )
    work.save("mine", so_far)
    found = work.find("mine")
    assert found is not None
    assert (found.positions, found.marks) == ({("a.dlq", 1): 5}, {("a", 0): 9})
    assert (found.unconfirmed, found.counts) == (["x", "y"], {"sent": 3})
    assert found.named == {"x": "sent"}
    assert found.all_counts == {"sent": 5, "done": 1}
    (row,) = database.query("SELECT published_at FROM onceward_request")
    assert row["published_at"] is not None
    work.leave("mine", is_done=False)
    found = work.find("mine")
    assert found is not None and (found.state, found.owner) == ("running", None)
    assert work.find("nobody's") is None


def test_one_that_is_done_is_nobodys(work: RedriveWork) -> None:
    work.leave("mine", is_done=True)
    found = work.find("mine")
    assert found is not None and (found.state, found.owner) == ("done", None)
    assert not work.cancel("mine", by="bob", reason=None)
    with pytest.raises(RedriveStopped):
        work.leave("mine", is_done=False)


def test_of_two_that_take_it_over_one_has_it(
    work: RedriveWork, database: Database, group: str
) -> None:
    stands = work.find("mine")
    assert stands is not None
    others = [RedriveWork(database.url, group=group, owner=name) for name in ("b", "c")]
    assert [one.take(stands, by=one.owner, reason="it stood") for one in others] == [True, False]
    with pytest.raises(RedriveStopped):
        work.save("mine", SavedProgress({}, {}, (), {}))
    for one in others:
        one.close()


def test_one_that_was_cancelled_since_it_was_read_is_not_taken_over(
    work: RedriveWork, database: Database, group: str
) -> None:
    work.leave("mine", is_done=False)
    stands = work.find("mine")
    assert stands is not None and work.cancel("mine", by="bob", reason="enough")
    other = RedriveWork(database.url, group=group, owner="b")
    assert not other.take(stands, by="bob", reason=None)
    other.close()
    found = work.find("mine")
    assert found is not None and found.state == "cancelled"


def test_the_latest_come_first_and_only_those_of_the_group(
    work: RedriveWork, database: Database
) -> None:
    database.change("UPDATE onceward_redrive SET started_at = 1")
    work.begin("later", by="zoe", reason=None, filter_text="{}", spans={})
    other = RedriveWork(database.url, group="another", owner="me")
    other.begin("theirs", by="zoe", reason=None, filter_text="{}", spans={})
    other.close()
    assert [one.redrive_id for one in work.latest(10)] == ["later", "mine"]
    assert [one.redrive_id for one in work.latest(1)] == ["later"]


def test_one_that_somebody_has_gone_on_with_since_is_neither_cancelled_nor_paused(
    work: RedriveWork, database: Database, group: str
) -> None:
    given = {"by": "bob", "reason": "enough"}
    stands = work.find("mine")
    assert stands is not None
    other = RedriveWork(database.url, group=group, owner="b")
    assert other.take(stands, by="ann", reason=None)
    for seen in ("me", ""):
        assert not work.cancel("mine", **given, seen=seen)
        assert not work.note_pause("mine", **given, seen=seen)
    assert work.note_pause("mine", **given, seen="b")
    # One that has stopped is cancelled by whoever has seen it at work.
    other.leave("mine", is_done=False)
    other.close()
    assert not work.note_pause("mine", **given, seen="b")
    assert work.cancel("mine", **given, seen="b")
    actions = database.query("SELECT action FROM onceward_action ORDER BY id")
    assert [one["action"] for one in actions] == ["resume", "pause", "cancel"]


def test_a_cancelled_one_is_noted(work: RedriveWork, database: Database) -> None:
    assert work.cancel("mine", by="bob", reason="enough")
    assert not work.cancel("nobody's", by="bob", reason=None)
    (noted,) = database.query("SELECT * FROM onceward_action")
    assert (noted["action"], noted["by"], noted["reason"]) == ("cancel", "bob", "enough")
    assert (noted["redrive_id"], noted["request_id"], noted["generation"]) == ("mine", None, None)
