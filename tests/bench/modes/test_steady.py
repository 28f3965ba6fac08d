"""The window of the steady state, and the calls of each second."""

from collections.abc import Sequence

import pytest

from tests.bench.modes.arm import Delays
from tests.bench.modes.calls import Call
from tests.bench.modes.steady import TooShort, per_second, steady

DELAYS = Delays(cycle=4, slow_s=1.0)


def calls(answered_s: Sequence[float], *, late_s: float = 0.0) -> list[Call]:
    return [Call(str(at), at - 0.2 - late_s, at, 0.2) for at in answered_s]


def test_the_beginning_and_the_cycle_that_did_not_end_are_left_out() -> None:
    # Of 4 a second from 100 s on: two slow delays are over after 8, and the last 3 are no cycle.
    found = steady(calls([100 + at / 4 for at in range(8 + 40 + 3)]), DELAYS, 2)
    assert (found.tps, found.seconds) == (4.0, 10.0)


def test_a_beginning_at_another_pace_does_not_count() -> None:
    quick = [100 + at / 50 for at in range(100)]
    found = steady(calls([*quick, *(102.23 + at / 4 for at in range(40))]), DELAYS, 2)
    assert found.tps == pytest.approx(4.0)


def test_the_first_n_belong_to_the_beginning_however_long_it_was() -> None:
    found = steady(calls([100.0 + at for at in range(60)]), DELAYS, 20)
    assert (found.tps, found.seconds) == (1.0, 40.0)


def test_what_the_counterparty_was_late_is_told() -> None:
    found = steady(calls([100 + at / 4 for at in range(60)], late_s=0.0015), DELAYS, 2)
    assert found.late_ms == pytest.approx(1.5)


@pytest.mark.parametrize("answers", [0, 1, 11])
def test_a_load_without_a_whole_cycle_after_the_beginning_is_too_short(answers: int) -> None:
    with pytest.raises(TooShort, match=f"{answers} calls"):
        steady(calls([100 + at / 4 for at in range(answers)]), DELAYS, 2)


def test_each_second_has_its_calls_and_the_last_is_left_out() -> None:
    found = per_second(calls([100.0, 100.5, 100.9, 102.1, 103.2]), step_s=1.0)
    assert found == [(0.5, 3.0), (1.5, 0.0), (2.5, 1.0)]


def test_longer_steps_still_count_a_second() -> None:
    assert per_second(calls([100.0, 101.0, 106.0]), step_s=5.0) == [(2.5, 0.4)]
