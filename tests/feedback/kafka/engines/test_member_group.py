"""Partitions that come and go, whatever library a member stands on."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S, MakeMember

pytestmark = pytest.mark.waits

MakeTopic = Callable[..., str]
VALUES = [b"%d" % number for number in range(10)]


@pytest.mark.parametrize("assignor", ["eager", "cooperative"])
def test_partitions_that_are_taken_away_are_read_again_from_where_their_owner_says(
    make_member: MakeMember, topic: MakeTopic, ground: Ground, assignor: str
) -> None:
    name = topic(2)
    for number in range(2):
        ground.write(name, VALUES, partition=number)
    first = make_member(name, assignor=assignor)
    assert len(first.read(2 * len(VALUES))) == 2 * len(VALUES)
    # All are in hand and committed; from 6 on none has run.
    ends = {(name, number): len(VALUES) for number in range(2)}
    first.member.commit(ends)
    first.again = dict.fromkeys(ends, 6)
    second = make_member(name, assignor=assignor)
    # In one thread the polls take turns, so each join outlasts a poll of the other.
    got = []

    def is_shared() -> bool:
        got.extend(second.poll(0.02))
        first.poll(0.02)
        return bool(first.member.assigned()) and len(second.member.assigned()) == 1

    eventually(is_shared, timeout_s=LIMIT_S)
    got.extend(second.read(4 - len(got)))
    (moved,) = second.member.assigned()
    assert [one.offset for one in got if (one.topic, one.partition) == moved] == [6, 7, 8, 9]
    assert any(moved in given for given in first.given_up)
    assert any(moved in offsets and not refused for offsets, refused in first.handed)
    assert first.member.assigned() == {*ends} - {moved}


@pytest.mark.parametrize("assignor", ["eager", "cooperative"])
def test_a_partition_that_was_paused_when_it_went_is_read_when_it_comes_back(
    make_member: MakeMember, topic: MakeTopic, ground: Ground, assignor: str
) -> None:
    name = topic(2)
    both = [(name, 0), (name, 1)]
    first = make_member(name, assignor=assignor)
    first.join(2)
    first.member.pause(both)
    second = make_member(name, assignor=assignor)

    def is_shared() -> bool:
        second.poll(0.02), first.poll(0.02)
        return len(first.member.assigned()) == len(second.member.assigned()) == 1

    eventually(is_shared, timeout_s=LIMIT_S)
    (moved,) = second.member.assigned()
    second.close()
    first.join(2)
    assert moved not in first.member.paused()
    first.member.resume(first.member.paused())
    for _, number in both:
        ground.write(name, VALUES, partition=number)
    assert {one.partition for one in first.read(2 * len(VALUES))} == {0, 1}


def test_a_member_that_stands_still_loses_its_partitions_hears_of_it_and_comes_back(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    place, still_s = (name, 0), ground.shortest_still_s
    still = make_member(name, max_poll_interval_s=still_s, session_timeout_s=still_s)
    still.join(1)
    other = make_member(name)
    until_s = time.monotonic() + LIMIT_S
    while not other.member.assigned():
        other.poll(0.1)
        assert time.monotonic() < until_s
    ground.write(name, VALUES)
    found = other.read(len(VALUES))
    other.member.commit({place: len(VALUES)})
    assert len(found) == len(VALUES)
    # It reads nothing that is another's, and is told.
    still.again = {place: 0}
    eventually(lambda: still.poll() == [] and still.given_up != [], timeout_s=LIMIT_S)
    assert [refused for _, refused in still.handed if not refused] == []
    assert other.member.committed([place]) == {place: len(VALUES)}
    other.close()
    eventually(lambda: still.poll() == [] and still.member.assigned() == {place}, timeout_s=LIMIT_S)
