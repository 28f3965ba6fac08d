"""Groups of a broker in memory: each partition has one reader, in every generation."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from itertools import pairwise

import pytest

from feedback.kafka.errors import KafkaFault
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.values import Partition
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.members import MakeMember, Told

TOPIC, POLL_S = "orders", 0.002
PARTITIONS = 7


def in_turn(*members: Told) -> None:
    """Poll each once; no partition may have two readers."""
    for one in members:
        one.poll(POLL_S)
        owned = Counter(place for member in members for place in member.member.assigned())
        assert not owned or max(owned.values()) == 1


def settle(*members: Told) -> list[int]:
    """Poll until all are stable, and return how many partitions each has."""

    def is_stable() -> bool:
        in_turn(*members)
        return all(one.member.is_stable() for one in members)

    eventually(is_stable, interval_s=0.0)
    return sorted(len(one.member.assigned()) for one in members)


@pytest.mark.parametrize("assignor", ["eager", "cooperative"])
def test_members_that_come_and_go_share_evenly_and_no_partition_has_two_readers(
    broker: MemoryBroker, make_member: MakeMember, assignor: str
) -> None:
    broker.make_topic(TOPIC, PARTITIONS)
    first = make_member(TOPIC, assignor=assignor)
    assert settle(first) == [7]
    second = make_member(TOPIC, assignor=assignor)
    assert settle(first, second) == [3, 4]
    third = make_member(TOPIC, assignor=assignor)
    assert settle(first, second, third) == [2, 2, 3]
    second.close()
    assert settle(first, third) == [3, 4]
    if assignor == "cooperative":
        # It gave up as many as others needed, and never all.
        assert max(len(gone) for gone in first.given_up) < PARTITIONS


def test_a_member_of_an_older_generation_commits_nothing(
    broker: MemoryBroker, make_member: MakeMember, settings: KafkaSection
) -> None:
    broker.make_topic(TOPIC)
    place = (TOPIC, 0)
    old = make_member(TOPIC)
    old.join(1)
    broker.expel(settings.group)
    new = make_member(TOPIC)
    new.join(1)
    new.member.commit({place: 5})
    old.again = {place: 1}
    with pytest.raises(KafkaFault, match="UnknownMember"):
        old.member.commit({place: 2})
    assert old.poll(POLL_S) == []
    assert old.handed == [({place: 1}, "lost")]
    assert new.member.committed([place]) == {place: 5}


def test_a_commit_during_a_rebalance_is_of_the_ending_generation_and_may_be_repeated_after(
    broker: MemoryBroker, make_member: MakeMember
) -> None:
    broker.make_topic(TOPIC, 3)
    place = (TOPIC, 0)
    first, second = (make_member(TOPIC, assignor="cooperative") for _ in range(2))
    settle(first, second)
    third = make_member(TOPIC, assignor="cooperative")
    third.poll(0.0)
    first.poll(0.0)
    first.member.commit({place: 1})
    second.poll(0.0)
    # The rebalance has ended, and the first has not learnt of it.
    with pytest.raises(KafkaFault, match="RebalanceInProgress") as caught:
        first.member.commit({place: 2})
    assert caught.value.is_passing
    assert settle(first, second, third) == [1, 1, 1]
    first.member.commit({place: 2})
    assert first.member.committed([place]) == {place: 2}


def test_members_that_assign_in_other_ways_do_not_share_a_group(
    broker: MemoryBroker, make_member: MakeMember
) -> None:
    broker.make_topic(TOPIC)
    make_member(TOPIC).join(1)
    with pytest.raises(KafkaFault, match="InconsistentGroupProtocol"):
        make_member(TOPIC, assignor="cooperative").poll(POLL_S)


def test_a_topic_that_is_made_later_or_anew_is_read(
    broker: MemoryBroker, make_member: MakeMember
) -> None:
    one = make_member(TOPIC)
    one.join(0)
    for _ in range(2):
        broker.make_topic(TOPIC, 2)
        one.join(2)
        broker.append(TOPIC, b"v", partition=1)
        assert [found.offset for found in one.read(1)] == [0]
        one.member.commit({(TOPIC, 1): 1})
        broker.delete_topic(TOPIC)
        one.join(0)


def test_partitions_share_the_polls_of_a_member(
    broker: MemoryBroker, make_member: MakeMember
) -> None:
    broker.make_topic(TOPIC, 2)
    for number in (0, 1):
        for _ in range(100):
            broker.append(TOPIC, b"v", partition=number)
    one = make_member(TOPIC)
    polled = [found.partition for _ in range(6) for found in one.member.poll(1.0, max_records=10)]
    assert Counter(polled) == {0: 30, 1: 30}


def test_threads_read_each_record_in_its_order_and_commit_it(
    broker: MemoryBroker, make_member: MakeMember
) -> None:
    broker.make_topic(TOPIC, PARTITIONS)
    for number in range(PARTITIONS):
        for _ in range(50):
            broker.append(TOPIC, b"v", partition=number)
    members = [make_member(TOPIC, assignor="cooperative") for _ in range(3)]
    read: list[tuple[Partition, int]] = []
    committed: dict[Partition, int] = {}
    is_all = threading.Event()

    def work(told: Told) -> None:
        owed: dict[Partition, int] = {}
        while not is_all.is_set():
            for one in told.member.poll(0.05, max_records=5):
                place = (one.topic, one.partition)
                read.append((place, one.offset))
                owed[place] = one.offset + 1
            owed = {place: at for place, at in owed.items() if place in told.member.assigned()}
            # During a rebalance it is refused, and done after.
            with suppress(KafkaFault):
                told.member.commit(owed)
                committed.update(owed)
            if sum(committed.values()) == PARTITIONS * 50:
                is_all.set()

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in members]
    for one in threads:
        one.start()
    assert is_all.wait(30.0)
    for one in threads:
        one.join(30.0)
    assert len({*read}) == PARTITIONS * 50
    for number in range(PARTITIONS):
        offsets = [offset for place, offset in read if place == (TOPIC, number)]
        # Where a partition changes owners it goes on from a committed offset.
        assert all(after <= before + 1 for before, after in pairwise(offsets))
