"""What a member of a group does, whatever library it stands on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from feedback.records.envelope import NULL_HEADER
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import READ_NAME, Ground
from tests.feedback.kafka.engines.members import (
    LIMIT_S,
    MakeMember,
    look_often,
)

MakeTopic = Callable[..., str]
VALUES = [b"%d" % number for number in range(20)]


def test_records_come_in_order_and_a_commit_says_where_the_next_member_goes_on(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    place = (name, 0)
    ground.write(name, VALUES)
    first = make_member(name)
    found = first.read(len(VALUES))
    assert [(one.offset, one.value) for one in found] == list(enumerate(VALUES))
    assert all(one.timestamp_ms > 0 for one in found)
    # kafka-python may join before it knows the topic.
    assert first.taken[-1] == {place}
    assert first.member.assigned() == {place}
    eventually(lambda: first.poll() == [] and first.member.is_stable(), timeout_s=LIMIT_S)
    assert first.member.is_coordinated()
    assert first.member.committed([place]) == {place: 0}
    first.member.commit({place: 12})
    assert first.member.committed([place]) == {place: 12}
    first.close()
    assert [one.offset for one in make_member(name).read(8)] == list(range(12, 20))


def test_its_position_is_behind_offsets_without_a_record(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(2)
    ground.write(name, [b"there"])
    with ground.transactions() as foreign:
        foreign.write(name, b"never was")
        foreign.abort()
    one = make_member(name)
    assert [found.value for found in one.read(1)] == [b"there"]
    # The record, the aborted one, and the mark of its transaction's end.
    eventually(lambda: one.poll() == [] and one.member.position((name, 0)) == 3, timeout_s=LIMIT_S)
    assert one.member.is_read((name, 0))
    # The other partition is empty, and read as well.
    eventually(lambda: one.poll() == [] and one.member.is_read((name, 1)), timeout_s=LIMIT_S)
    assert one.member.position(("another", 0)) == -1
    assert not one.member.is_read(("another", 0))


def test_a_partition_with_an_open_transaction_is_not_read_to_its_end(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    ground.write(name, [b"there"])
    with ground.transactions() as foreign:
        foreign.write(name, b"not yet")
        one = make_member(name)
        assert len(one.read(1)) == 1
        for _ in range(20):
            assert one.poll() == []
        assert not one.member.is_read((name, 0))
        foreign.commit()
        assert [found.value for found in one.read(1)] == [b"not yet"]


def test_paused_partitions_bring_nothing_and_miss_nothing(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(3)
    one = make_member(name)
    one.join(3)
    one.member.pause([(name, 0), (name, 1), ("another", 7)])
    assert one.member.paused() == {(name, 0), (name, 1)}
    for number in range(3):
        ground.write(name, VALUES, partition=number)
    assert {found.partition for found in one.read(len(VALUES))} == {2}
    # While they rest what was fetched of them grows old, and more is written.
    ground.write(name, VALUES, partition=0)
    for _ in range(40):
        assert one.poll() == []
    one.member.resume([(name, 0), ("another", 7)])
    again = one.read(2 * len(VALUES))
    assert [found.offset for found in again] == list(range(2 * len(VALUES)))
    assert {found.partition for found in again} == {0}
    one.member.resume([(name, 1)])
    assert [found.partition for found in one.read(len(VALUES))] == [1] * len(VALUES)
    assert one.member.paused() == frozenset()


def test_a_partition_that_its_owner_wants_paused_brings_no_record_before(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(2)
    for number in range(2):
        ground.write(name, VALUES, partition=number)
    one = make_member(name)
    one.paused.add((name, 1))
    assert {found.partition for found in one.read(len(VALUES))} == {0}
    for _ in range(10):
        assert one.poll() == []
    one.member.resume([(name, 1)])
    assert [found.offset for found in one.read(len(VALUES))] == list(range(len(VALUES)))


def test_a_partition_that_comes_paused_is_read_from_its_committed_offset(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    place = (name, 0)
    ground.write(name, VALUES)
    first = make_member(name)
    assert len(first.read(len(VALUES))) == len(VALUES)
    first.member.commit({place: 12})
    first.close()
    second = make_member(name)
    second.paused.add(place)
    second.join(1)
    for _ in range(10):
        assert second.poll() == []
    second.member.resume([place])
    assert [one.offset for one in second.read(8)] == list(range(12, 20))


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_seek_holds_even_when_the_partition_has_only_just_come(
    make_member: MakeMember, topic: MakeTopic, ground: Ground, is_paused: bool
) -> None:
    name = topic(1)
    place = (name, 0)
    ground.write(name, VALUES)
    one = make_member(name)
    # Within the poll that brings it the owner hears of it.
    one.paused = {place} if is_paused else set()
    eventually(lambda: one.poll(0.02) is not None and one.member.assigned(), timeout_s=LIMIT_S)
    one.member.seek({place: 15, ("another", 0): 3})
    assert one.member.position(place) == 15
    one.member.resume([place])
    assert [found.offset for found in one.read(5)] == list(range(15, 20))
    one.member.seek({place: 18})
    assert [found.offset for found in one.read(2)] == [18, 19]


def test_headers_are_any_bytes(make_member: MakeMember, topic: MakeTopic, ground: Ground) -> None:
    name = topic(1)
    ground.write(name, [b"v"], headers=[("a", b""), ("a", b"\xff"), ("é", b"1")])
    ground.write(name, [b"v"], headers=[("a", NULL_HEADER), ("b", b"2")])
    ground.write_odd_name(name)
    ground.write(name, [b"last"], key=b"")
    found = make_member(name).read(4)
    assert [one.offset for one in found][:2] == [0, 1]
    assert found[0].headers == (("a", b""), ("a", b"\xff"), ("é", b"1"))
    assert found[1].headers == (("a", NULL_HEADER), ("b", b"2"))
    assert found[2].headers == ((READ_NAME, b"1"), ("after", b"2"))
    assert (found[2].value, found[2].key) == (b"odd", b"k")
    assert (found[3].value, found[3].headers, found[3].key) == (b"last", (), b"")


def test_a_topic_that_is_not_there_is_no_fault_and_its_neighbour_is_read(
    make_member: MakeMember, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(2)
    ground.write(name, VALUES)
    one = make_member(name, f"{name}-missing")
    assert len(one.read(len(VALUES))) == len(VALUES)
    asked = [name, f"{name}-missing"]
    eventually(
        lambda: (
            one.poll() == []
            and one.member.partition_counts(asked) == dict(zip(asked, (2, 0), strict=True))
        ),
        timeout_s=LIMIT_S,
    )
    assert name in one.member.topics()
    assert f"{name}-missing" not in one.member.topics()


@pytest.mark.waits
def test_a_topic_that_is_deleted_is_seen_and_one_that_is_there_is_never_missed(
    make_member: MakeMember,
    topic: MakeTopic,
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look_often(monkeypatch)
    # Fetches wait for records all the while: what else the broker is asked waits behind them.
    gone, stays = topic(2), topic(3)
    one = make_member(gone, stays)
    one.join(5)
    eventually(
        lambda: (
            one.poll() == [] and one.member.partition_counts([gone, stays]) == {gone: 2, stays: 3}
        ),
        timeout_s=LIMIT_S,
    )
    ground.delete_topic(gone)

    def is_seen() -> bool:
        assert one.poll() == []
        counts = one.member.partition_counts([gone, stays])
        assert counts[stays] == 3
        return counts[gone] == 0

    eventually(is_seen, timeout_s=LIMIT_S)
