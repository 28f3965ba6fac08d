"""How the partitions of a member have their turns, on a real broker."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing

import pytest

from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S, Told

# So many records of 1 KiB come in one answer, if that may be as long as a library's default is.
BACKLOG = 800
# In several answers.
LONG_BACKLOG = 3000


@pytest.fixture
def engine() -> str:
    """Return the one of these tests."""
    return "confluent"


def test_no_partition_waits_for_the_whole_backlog_of_another_one(
    ground: Ground, settings: KafkaSection, group: str
) -> None:
    name = f"topic-{group}"
    ground.make_topic(name, 2)
    for partition in range(2):
        ground.write(name, [b"x" * 1024] * BACKLOG, partition=partition)
    handed_out: Counter[int] = Counter()
    with closing(Told(settings, name)) as told:

        def are_both_served() -> bool:
            handed_out.update(one.partition for one in told.member.poll(0.05, max_records=20))
            return len(handed_out) == 2

        eventually(are_both_served, timeout_s=LIMIT_S)
    assert max(handed_out.values()) <= BACKLOG / 2


def test_a_record_that_comes_later_waits_for_a_part_of_another_backlog_alone(
    ground: Ground, settings: KafkaSection, group: str
) -> None:
    name = f"topic-{group}"
    ground.make_topic(name, 2)
    ground.write(name, [b"x" * 100] * LONG_BACKLOG, partition=0)
    handed_out: Counter[int] = Counter()
    with closing(Told(settings, name)) as told:

        def is_served(partition: int) -> bool:
            handed_out.update(one.partition for one in told.member.poll(0.05, max_records=20))
            return partition in handed_out

        eventually(lambda: is_served(0), timeout_s=LIMIT_S)
        # To make a producer takes far longer than to fetch the backlog.
        ground.write(name, [b"later"], partition=1)
        eventually(lambda: is_served(1), timeout_s=LIMIT_S)
    assert handed_out[0] <= LONG_BACKLOG / 2


def test_a_member_that_pauses_again_and_again_comes_to_each_partition(
    ground: Ground, settings: KafkaSection, group: str
) -> None:
    name = f"topic-{group}"
    ground.make_topic(name, 4)
    for partition in range(4):
        ground.write(name, [b"x" * 1024] * BACKLOG, partition=partition)
    found: dict[int, list[int]] = {}
    with closing(Told(settings, name)) as told:

        def have_all_their_turn() -> bool:
            # As a worker whose buffer is full each time.
            told.member.resume(told.member.paused())
            for one in told.member.poll(0.5, max_records=4):
                found.setdefault(one.partition, []).append(one.offset)
            told.member.pause(told.member.assigned())
            assert told.member.poll(0, max_records=1) == []
            return len(found) == 4

        eventually(have_all_their_turn, timeout_s=LIMIT_S)
    assert max(len(one) for one in found.values()) <= BACKLOG / 4
    assert found == {one: list(range(len(offsets))) for one, offsets in found.items()}


def test_each_record_comes_once_and_in_order_whatever_is_paused_between_the_polls(
    ground: Ground, settings: KafkaSection, group: str
) -> None:
    name = f"topic-{group}"
    ground.make_topic(name, 4)
    places = [(name, partition) for partition in range(4)]
    for _, partition in places:
        ground.write(name, [b"x" * 200] * BACKLOG, partition=partition)
    found: dict[int, list[int]] = {partition: [] for _, partition in places}
    chance = random.Random(group)
    with closing(Told(settings, name)) as told:

        def is_all() -> bool:
            paused = chance.sample(places, chance.choice([0, 1, 2, 4]))
            told.member.resume(set(places) - set(paused))
            told.member.pause(paused)
            for one in told.member.poll(0.05, max_records=chance.choice([1, 16, 64])):
                assert (name, one.partition) not in paused
                found[one.partition].append(one.offset)
            return sum(map(len, found.values())) >= 4 * BACKLOG

        eventually(is_all, timeout_s=LIMIT_S, interval_s=0.0)
    assert found == {partition: [*range(BACKLOG)] for _, partition in places}
