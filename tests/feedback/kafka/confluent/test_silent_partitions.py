"""Which partitions are silent, by librdkafka's statistics."""

from __future__ import annotations

from typing import Any

import pytest

from feedback.kafka.confluent.silent_partitions import (
    AGAIN,
    LONG,
    TURNS,
    Fetching,
    SilentPartitions,
)
from feedback.kafka.values import Partition

ONE, OTHER = ("t", 0), ("t", 1)


class Statistics:
    """Statistics of one partition, one after the other."""

    def __init__(self) -> None:
        self.silent = SilentPartitions()

    def named(
        self,
        offset: int,
        *,
        position: int = 5,
        times: int = 1,
        is_paused: bool = False,
        has_rested: bool = False,
        **how: Any,
    ) -> int:
        """Return how often it was named."""
        fetched: set[Partition] = set() if is_paused else {ONE}
        rested: set[Partition] = {ONE} if has_rested else set()
        one = {ONE: Fetching(offset, **how)}
        found = [self.silent.hear(one, {ONE: position}, fetched, rested) for _ in range(times)]
        return found.count([ONE])

    def forget(self) -> None:
        """Let nothing be known of it."""
        assert self.silent.hear({}, {}, set(), set()) == []


def test_it_is_named_when_nothing_has_come_for_long_and_then_soon() -> None:
    one = Statistics()
    assert one.named(5, times=LONG) == 0
    assert one.named(5) == 1
    assert one.named(5, times=AGAIN - 1) == 0
    assert one.named(5) == 1


def test_one_that_is_read_on_is_not() -> None:
    one = Statistics()
    assert one.named(5, times=LONG) == 0
    # A record was handed out.
    assert one.named(6, position=6, times=LONG) == 0
    # Offsets without a record were passed.
    assert one.named(7, position=6, times=LONG) == 0
    one.forget()
    assert one.named(7, position=6, times=LONG) == 0


def test_pauses_count_for_nothing_and_wipe_nothing() -> None:
    one = Statistics()
    assert one.named(5) == 0
    for _ in range(LONG - 1):
        assert one.named(5) == one.named(5, is_paused=True, times=3) == 0
    assert one.named(5) == 1


def test_a_mark_of_a_transaction_that_is_passed_again_behind_each_pause_wipes_nothing() -> None:
    one = Statistics()
    assert one.named(6) == 0
    assert sum(one.named(offset) for _ in range(LONG) for offset in (5, 6)) > 0


def test_a_log_that_was_made_anew_is_judged_by_its_own_offsets() -> None:
    one = Statistics()
    assert one.named(15, position=15, times=LONG) == 0
    assert one.named(3, position=3, times=LONG) == 0
    assert one.named(3, position=3) == 1


def test_each_has_a_time_of_its_own() -> None:
    silent = SilentPartitions()
    positions = {ONE: 5, OTHER: 5}
    one, other = {ONE: Fetching(5)}, {OTHER: Fetching(5)}
    for _ in range(LONG):
        assert silent.hear(one, positions, {ONE}, set()) == []
    assert silent.hear(one | other, positions, {ONE, OTHER}, set()) == [ONE]


def test_one_that_nobody_asked_for_is_not_silent() -> None:
    one = Statistics()
    assert one.named(5, times=3 * LONG, turns=0.0) == 0
    # As one of many partitions that have a backlog: the batches of the others fill each answer.
    assert one.named(5, times=LONG, turns=TURNS / LONG / 2) == 0
    assert one.named(5, turns=TURNS) == 1


def test_fetches_of_which_a_pause_may_have_cost_the_answer_do_not_count() -> None:
    one = Statistics()
    assert one.named(5, times=3 * LONG, has_rested=True, is_answered=False) == 0
    assert one.named(5, times=2, has_rested=True) == 1


def test_one_that_was_named_is_silent_until_it_moves() -> None:
    one = Statistics()
    assert one.named(6, times=LONG) == 0
    assert not one.silent.is_silent(ONE)
    assert one.named(6) == 1
    # It is sought, passes a mark of a transaction again, and has no leader for a while.
    for offset in (5, 6):
        one.named(offset)
        one.forget()
        assert one.silent.is_silent(ONE)
    assert one.named(6, times=AGAIN) > 0
    one.named(7)
    assert not one.silent.is_silent(ONE)


@pytest.mark.parametrize("how", [{"position": 6}, {"has_more": False}])
def test_one_that_was_named_and_is_read_on_is_not_silent(how: dict[str, Any]) -> None:
    one = Statistics()
    assert one.named(5, times=LONG + 1) == 1
    one.named(5, **how)
    assert not one.silent.is_silent(ONE)


def test_one_that_another_member_has_is_not_silent() -> None:
    one = Statistics()
    assert one.named(5, times=LONG + 1) == 1
    one.silent.forget({ONE, OTHER})
    assert not one.silent.is_silent(ONE)
