"""The table of unfinished requests: conditional, and only for who owns the partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from consumer.features.waits.registry.partition_leases import LeaseLost
from consumer.features.waits.registry.wait_rows import UnfinishedRow, WaitChanges
from consumer.features.waits.registry.wait_table import WaitTable
from tests.eventually import eventually
from tests.kit.databases import migrated

PLACE = ("t.g.wait", 0)
ID = "topic-id"
MakeTable = Callable[..., WaitTable]


@pytest.fixture
def make_table(journal_url: str) -> Iterator[MakeTable]:
    """Yield a factory `make_table(owner, lease_s=60)` on one migrated database."""
    migrated(journal_url)
    with ExitStack() as tables:

        def make(owner: str, lease_s: float = 60.0) -> WaitTable:
            one = WaitTable(journal_url, group="g", owner=owner, lease_s=lease_s)
            tables.callback(one.close)
            return one

        yield make


def _row(name: str, offset: int, *, expires_at: int = 5, holder: str = "w") -> UnfinishedRow:
    return UnfinishedRow(name, offset, expires_at, holder, 1, 1)


def test_an_older_record_never_overwrites_a_newer_one(make_table: MakeTable) -> None:
    table = make_table("one")
    table.take(PLACE, ID)
    table.apply(PLACE, WaitChanges([_row("a", 2**40)]), read_to=(0, 1))
    table.apply(PLACE, WaitChanges([_row("a", 5)]), read_to=(1, 2))
    assert [one.offset for one in table.due(PLACE, ["w"], limit=9)] == [2**40]


def test_a_tombstone_ends_what_stands_before_it_alone(make_table: MakeTable) -> None:
    table = make_table("one")
    table.take(PLACE, ID)
    rows = [_row("a", 5), _row("b", 7)]
    table.apply(PLACE, WaitChanges(rows, {"a": 6, "b": 6, "c": 6}), read_to=(0, 8))
    assert [one.request_id for one in table.due(PLACE, ["w"], limit=9)] == ["b"]


def test_what_was_read_and_how_far_are_one(make_table: MakeTable) -> None:
    one, other = make_table("one"), make_table("other")
    one.take(PLACE, ID)
    one.apply(PLACE, WaitChanges([_row("a", 3)]), read_to=(0, 4))
    with pytest.raises(LeaseLost):
        one.apply(PLACE, WaitChanges([_row("b", 1)]), read_to=(0, 2))
    one.release([PLACE])
    opened = other.take(PLACE, ID)
    assert opened is not None
    assert opened.position == 4
    assert [row.request_id for row in other.due(PLACE, ["w"], limit=9)] == ["a"]


def test_a_partition_is_one_owners_until_its_lease_is_over(make_table: MakeTable) -> None:
    one, other = make_table("one", lease_s=3.0), make_table("other")
    one.take(PLACE, ID)
    assert other.take(PLACE, ID) is None
    eventually(lambda: other.take(PLACE, ID), timeout_s=30)
    with pytest.raises(LeaseLost):
        one.apply(PLACE, WaitChanges([_row("a", 3)]), read_to=(0, 4))
    with pytest.raises(LeaseLost):
        one.begin(PLACE, [_row("a", 3)], position=0, letter_partition=0, letter_mark=0)
    assert other.due_holders(PLACE) == []


def test_what_is_begun_is_not_due_any_more_and_a_tombstone_is_noted(make_table: MakeTable) -> None:
    table = make_table("one")
    table.take(PLACE, ID)
    row = _row("a", 3)
    table.apply(PLACE, WaitChanges([row]), read_to=(0, 4))
    (begun,) = table.begin(PLACE, [row], position=4, letter_partition=1, letter_mark=2**40)
    assert (begun.letter_partition, begun.letter_mark, begun.ended_offset) == (1, 2**40, None)
    assert table.due(PLACE, ["w"], limit=9) == []
    table.apply(PLACE, WaitChanges([], {"a": 9}), read_to=(4, 10))
    assert [one.ended_offset for one in table.expiries(PLACE)] == [9]
    table.finish(PLACE, ["a"], position=10)
    assert table.expiries(PLACE) == []


def test_what_is_due_is_judged_by_the_databases_clock_and_by_holder(make_table: MakeTable) -> None:
    table = make_table("one")
    table.take(PLACE, ID)
    rows = [_row("a", 1), _row("b", 2, holder=""), _row("c", 3, expires_at=2**50)]
    table.apply(PLACE, WaitChanges(rows), read_to=(0, 4))
    assert sorted(table.due_holders(PLACE)) == ["", "w"]
    assert [one.request_id for one in table.due(PLACE, [""], limit=9)] == ["b"]
    assert (table.count_due(PLACE, ["w", ""]), table.standing([PLACE]).waiting) == (2, 3)


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(make_table: MakeTable) -> None:
    table = make_table("one")
    table.take(PLACE, ID)
    table.apply(PLACE, WaitChanges([_row("a", 3)]), read_to=(0, 4))
    opened = table.take(PLACE, "another-id")
    assert opened is not None
    assert (opened.position, opened.forgotten) == (0, 1)
    assert table.due_holders(PLACE) == []
