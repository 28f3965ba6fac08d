"""The pauses of a group, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from consumer.journal.pauses import Pauses
from tests.consumer.journal.conftest import Database


@pytest.fixture
def open_pauses(database: Database) -> Iterator[Callable[[str], Pauses]]:
    """Yield a factory `open_pauses(group)`; what it opens is closed afterwards."""
    opened: list[Pauses] = []

    def open_one(group: str) -> Pauses:
        opened.append(Pauses(database.url, group=group))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def pauses(open_pauses: Callable[[str], Pauses], group: str) -> Pauses:
    """Return the pauses of one group."""
    return open_pauses(group)


def test_a_pause_stands_with_its_reason_until_it_is_ended(
    pauses: Pauses, database: Database, now_ms_of: Callable[[Database], int]
) -> None:
    before = now_ms_of(database)
    assert pauses.pause("payments", reason="the bank's, 'quoted'", by="a@host")
    (found,) = pauses.paused()
    assert (found.topic, found.reason, found.by) == ("payments", "the bank's, 'quoted'", "a@host")
    assert before <= found.since <= now_ms_of(database)
    assert pauses.resume("payments", by="b@host") == found
    assert pauses.paused() == []


def test_of_two_pauses_the_first_stands(pauses: Pauses) -> None:
    assert pauses.pause("payments", reason="first", by="a")
    (found,) = pauses.paused()
    assert not pauses.pause("payments", reason="second", by="b")
    assert pauses.paused() == [found]


def test_a_topic_that_was_resumed_can_be_paused_again(pauses: Pauses, database: Database) -> None:
    pauses.pause("payments", reason="first", by="a")
    pauses.resume("payments", by="b")
    (row,) = database.query("SELECT resumed_by, resumed_at FROM onceward_pause")
    assert (row["resumed_by"], row["resumed_at"] is None) == ("b", False)
    assert pauses.pause("payments", reason="second", by="c")
    (found,) = pauses.paused()
    assert (found.reason, found.by) == ("second", "c")


def test_ending_what_does_not_stand_ends_nothing(pauses: Pauses) -> None:
    assert pauses.resume("payments", by="b") is None
    pauses.pause("payments", reason="r", by="a")
    pauses.resume("payments", by="b")
    assert pauses.resume("payments", by="c") is None


def test_pauses_belong_to_their_group(open_pauses: Callable[[str], Pauses], group: str) -> None:
    mine, other = open_pauses(group), open_pauses(f"{group}-other")
    mine.pause("payments", reason="r", by="a")
    assert other.paused() == []
    assert other.resume("payments", by="b") is None
    assert other.pause("payments", reason="other", by="b")
    assert [one.reason for one in mine.paused()] == ["r"]


def test_topics_are_named_in_order(pauses: Pauses) -> None:
    for topic in ("refunds", "payments", "zeta"):
        pauses.pause(topic, reason="r", by="a")
    assert [one.topic for one in pauses.paused()] == ["payments", "refunds", "zeta"]
