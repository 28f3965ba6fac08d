"""The rules of replacing: when a start is tried again, when hope is given up, what is too large."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.pool.memory import MemoryVerdict, judge
from consumer.pool.respawn_policy import BROKEN_AFTER, DELAY_S, RespawnPolicy
from feedback.doubling import doubled


def test_a_failed_start_is_due_after_its_pause_and_only_once() -> None:
    respawn_policy = RespawnPolicy()
    assert respawn_policy.next_s == math.inf
    respawn_policy.try_later(3, "no licence", 100.0)
    assert respawn_policy.next_s == 100.0 + doubled(*DELAY_S, 3)
    assert respawn_policy.take_due(respawn_policy.next_s - 0.01) == []
    assert respawn_policy.take_due(respawn_policy.next_s) == [3]
    assert respawn_policy.take_due(math.inf) == []
    assert respawn_policy.replaced["start_failed"] == 1


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
    assert judge(used_bytes, 100, can_wait=can_wait) is verdict
