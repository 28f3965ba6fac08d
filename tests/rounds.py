"""For what can only be seen by the clock: noise of the machine spoils some rounds, a fault all."""

import math
from collections.abc import Callable
from typing import TypeVar

from feedback.clock import monotonic_s
from tests.standstill import standing_still

T = TypeVar("T")

ROUNDS = 5
# Of a thread that only had to wake: on a quiet machine it is some milliseconds late.
NOISY_S = 0.1


def holds_in_one_round(
    check: Callable[[], None], *, rounds: int = ROUNDS, noise: tuple[type[Exception], ...] = ()
) -> None:
    """Repeat a check until it holds.

    Args:
        check: raises AssertionError when it does not hold. It asserts times alone: whatever must
            hold in every round is asserted outside.
        rounds: how often it is tried.
        noise: further errors that a machine which stands still for a while causes.

    Raises:
        ExceptionGroup: the errors of all rounds, when it held in none.
    """
    caught: tuple[type[Exception], ...] = (AssertionError, *noise)
    failures: list[Exception] = []
    for _ in range(rounds):
        try:
            check()
        except caught as error:
            failures.append(error)
        else:
            return
    raise ExceptionGroup(f"in none of {rounds} rounds", failures)


def fastest_s(
    measure_s: Callable[[], float],
    *,
    enough_s: float,
    rounds: int = ROUNDS,
    noise: tuple[type[Exception], ...] = (),
) -> float:
    """Return the shortest of some measurements in seconds; the first that is short enough ends.

    What the machine stood still meanwhile does not count.

    Args:
        noise: errors of a machine that stands still for a while; such a round took for ever.
    """
    taken_s = [_own_s(measure_s, noise)]
    while taken_s[-1] > enough_s and len(taken_s) < rounds:
        taken_s.append(_own_s(measure_s, noise))
    return min(taken_s)


def _own_s(measure_s: Callable[[], float], noise: tuple[type[Exception], ...]) -> float:
    with standing_still() as stood:
        try:
            measured_s = measure_s()
        except noise:
            # By a machine that did not stand still it is a fault.
            if stood.longest_s < NOISY_S:
                raise
            return math.inf
    return measured_s - stood.total_s


def in_time(
    call: Callable[[], T],
    *,
    limit_s: float,
    rounds: int = ROUNDS,
    noise: tuple[type[Exception], ...] = (),
) -> T:
    """Return what a call returns that takes less than `limit_s`, in the first round that does.

    What the machine stood still meanwhile does not count.

    Args:
        noise: errors of a machine that stands still for a while; such a round took for ever.

    Raises:
        AssertionError: it took longer in each of them.
    """
    found: list[T] = []

    def measure_s() -> float:
        began_s = monotonic_s()
        found.append(call())
        return monotonic_s() - began_s

    fastest = fastest_s(measure_s, enough_s=limit_s, rounds=rounds, noise=noise)
    assert fastest <= limit_s, f"not within {limit_s:g} s, but in {fastest:g} s and more"
    return found[-1]
