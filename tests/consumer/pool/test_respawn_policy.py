"""The rules of replacing: when a start is tried again, when hope is given up, what is too large."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.pool.memory import MemoryVerdict, memory_verdict
from consumer.pool.respawn_policy import (
    AT_ONCE,
    BROKEN_AFTER,
    DELAY_S,
    SLOW_AFTER_S,
    RespawnPolicy,
)
from feedback.doubling import doubled


def test_a_failed_start_is_due_after_its_pause_and_only_once() -> None:
    respawn_policy = RespawnPolicy()
    assert respawn_policy.next_s([]) == math.inf
    respawn_policy.try_later(3, "no licence", 100.0)
    assert respawn_policy.next_s([]) == 100.0 + doubled(*DELAY_S, 3)
    assert respawn_policy.take_first() == 3
    assert respawn_policy.next_s([]) == math.inf
    assert respawn_policy.replaced["start_failed"] == 1


def test_a_start_waits_while_as_many_children_start_as_there_are_processors() -> None:
    respawn_policy = RespawnPolicy()
    respawn_policy.want(100.0)
    respawn_policy.want(101.0)
    begun_s = [97.0, *[98.0 + number / 1000 for number in range(AT_ONCE)]]
    # Those that take long share no processor with it: they wait for something.
    assert respawn_policy.next_s(begun_s) == 98.0 + SLOW_AFTER_S
    assert respawn_policy.next_s(begun_s[:AT_ONCE]) == 97.0 + SLOW_AFTER_S
    assert respawn_policy.next_s(begun_s[2:]) == 100.0
    assert [respawn_policy.take_first() for _ in range(2)] == [0, 0]
    assert respawn_policy.next_s(begun_s) == math.inf


@given(st.lists(st.integers(1, 8), max_size=5), st.lists(st.integers(0, 8), max_size=5))
def test_the_fault_is_told_when_one_place_failed_often_enough(
    waiting: list[int], starting: list[int]
) -> None:
    respawn_policy = RespawnPolicy()
    for failures in waiting:
        respawn_policy.try_later(failures, f"failure {failures}", 0.0)
    is_hopeless = bool(waiting) and max([*waiting, *starting]) >= BROKEN_AFTER
    assert respawn_policy.fault(starting) == (f"failure {waiting[-1]}" if is_hopeless else None)


@pytest.mark.parametrize(
    ("used_bytes", "can_wait", "verdict"),
    [
        (100, False, MemoryVerdict.KEEP),
        (101, False, MemoryVerdict.RETIRE),
        (200, False, MemoryVerdict.RETIRE),
        (201, False, MemoryVerdict.KILL),
        (100, True, MemoryVerdict.KEEP),
        (101, True, MemoryVerdict.RETIRE),
        (10**9, True, MemoryVerdict.RETIRE),
    ],
)
def test_memory_is_judged_by_the_limit_and_by_twice_the_limit(
    used_bytes: int, can_wait: bool, verdict: MemoryVerdict
) -> None:
    assert memory_verdict(used_bytes, 100, can_wait=can_wait) is verdict
