"""By how much a reader slows a worker: the pairs, their order, and the sign."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.console.slowdown import slows_percent


def test_the_two_of_a_pair_take_turns_and_a_slower_worker_is_a_positive_figure() -> None:
    begun: list[str] = []

    def measuring(name: str, *found: float) -> Callable[[], float]:
        left = iter(found)

        def measure() -> float:
            begun.append(name)
            return next(left)

        return measure

    alone, beside = measuring("alone", 100, 200, 100), measuring("beside", 90, 190, 99)
    slows, pairs = slows_percent(alone, beside, pairs=3)
    assert begun == ["alone", "beside", "beside", "alone", "alone", "beside"]
    assert pairs == [(90, 100), (190, 200), (99, 100)]
    assert round(slows, 6) == 5
