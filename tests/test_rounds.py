"""An error of a machine that stands still spoils a round; any other machine's is a fault."""

import math

import pytest

from tests import rounds
from tests.rounds import fastest_s, in_time


class _Doubt(Exception):
    pass


def _fails_once() -> list[Exception]:
    return [_Doubt("once")]


def _call(errors: list[Exception]) -> str:
    if errors:
        raise errors.pop()
    return "well"


def test_noise_spoils_a_round_where_the_machine_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "NOISY_S", 0.0)
    errors = _fails_once()
    assert in_time(lambda: _call(errors), limit_s=60, noise=(_Doubt,)) == "well"
    assert errors == []


def test_noise_of_a_machine_that_went_on_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "NOISY_S", math.inf)
    errors = _fails_once()
    with pytest.raises(_Doubt):
        in_time(lambda: _call(errors), limit_s=60, noise=(_Doubt,))


def test_noise_in_all_rounds_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "NOISY_S", 0.0)
    errors: list[Exception] = [_Doubt("each") for _ in range(9)]
    with pytest.raises(AssertionError, match="not within 60 s"):
        in_time(lambda: _call(errors), limit_s=60, rounds=3, noise=(_Doubt,))
    assert len(errors) == 6


def test_what_is_no_noise_fails_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "NOISY_S", 0.0)
    errors = _fails_once()
    with pytest.raises(_Doubt):
        fastest_s(lambda: float(len(_call(errors))), enough_s=60)
