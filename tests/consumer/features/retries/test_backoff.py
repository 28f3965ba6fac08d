"""How long to wait before which retry, and when there is no other."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.handlers.backoff import (
    Backoff,
    Custom,
    Exponential,
    Fixed,
    Immediately,
    Tiers,
    Uniform,
    delay_name,
    milliseconds,
    topic_delay_ms,
)
from consumer.handlers.retry_policy import next_delay_ms


def _delays(backoff: Backoff, seed: int = 0) -> list[int]:
    random = Random(seed)
    return [backoff.delay_ms(retry, random) for retry in range(1, backoff.tries + 1)]


@pytest.mark.parametrize(
    ("duration", "ms"),
    [("500ms", 500), ("5s", 5000), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), (0.02, 20)],
)
def test_a_duration_is_written_as_people_do(duration: str | float, ms: int) -> None:
    assert milliseconds(duration) == ms


@pytest.mark.parametrize(
    "duration", ["", "5", "s", "-1s", "1d", "1e3s", "31000h", -1, math.nan, math.inf, True, None]
)
def test_what_is_no_duration_is_refused(duration: object) -> None:
    with pytest.raises(ValueError, match="duration"):
        milliseconds(duration)  # type: ignore[arg-type]


@given(st.integers(0, 10**9))
def test_the_name_of_a_duration_means_that_duration(ms: int) -> None:
    assert milliseconds(delay_name(ms)) == ms


def test_the_tiers_of_the_contract_are_run_one_after_the_other() -> None:
    tiers = Tiers.parse("1s x 2, 5s x 2")
    assert _delays(tiers) == [1000, 1000, 5000, 5000]
    assert tiers.topic_delays_ms == (1000, 5000)
    assert tiers == Tiers(("1s", 2), (5, 2))


@pytest.mark.parametrize("text", ["", "1s x", "x 2", "1s x 0", "1s x 2,", "1s x 2000", "1s 2s"])
def test_tiers_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"tiers like|duration|tries"):
        Tiers.parse(text)


def test_fixed_and_immediate_delays_have_one_topic() -> None:
    assert _delays(Fixed("2s", tries=3)) == [2000] * 3
    assert _delays(Immediately(tries=2)) == [0, 0]
    assert Fixed("2s", tries=3).topic_delays_ms == (2000,)


def test_an_exponential_delay_grows_to_its_most() -> None:
    backoff = Exponential("100ms", tries=6, factor=3, most="5s")
    assert _delays(backoff) == [100, 300, 900, 2700, 5000, 5000]
    assert backoff.topic_delays_ms == (100, 300, 900, 2700, 5000)


def test_a_thousand_tries_do_not_overflow() -> None:
    backoff = Exponential("1s", tries=1000, factor=1e6, most="1h")
    assert _delays(backoff)[-1] == 3_600_000


@given(st.integers(0, 2**32), st.floats(0, 1))
def test_jitter_takes_its_share_and_no_more(seed: int, jitter: float) -> None:
    backoff = Exponential("1s", tries=4, jitter=jitter)
    for whole, drawn in zip([1000, 2000, 4000, 8000], _delays(backoff, seed), strict=True):
        assert math.floor(whole * (1 - jitter)) - 1 <= drawn <= whole
        assert topic_delay_ms(backoff, drawn) >= drawn


def test_jitter_keeps_apart_what_failed_together() -> None:
    backoff = Exponential("10s", tries=1, jitter=1.0)
    random = Random(1)
    assert len({backoff.delay_ms(1, random) for _ in range(50)}) > 40


@given(st.integers(0, 2**32))
def test_a_uniform_delay_is_within_its_bounds(seed: int) -> None:
    backoff = Uniform("1s", "5s", tries=5)
    assert all(1000 <= delay <= 5000 for delay in _delays(backoff, seed))
    assert backoff.topic_delays_ms == (5000,)


def test_a_function_says_what_it_likes_within_its_bounds() -> None:
    assert _delays(Custom(lambda retry: retry * 0.5, tries=3, most="1s")) == [500, 1000, 1000]
    assert _delays(Custom(lambda retry: -1, tries=1)) == [0]
    assert _delays(Custom(lambda retry: math.nan, tries=1)) == [0]


def test_a_function_that_raises_waits_the_longest() -> None:
    def raising(retry: int) -> float:
        raise KeyError(retry)

    assert _delays(Custom(raising, tries=1, most="7s")) == [7000]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Exponential("1s", tries=2, factor=0.5),
        lambda: Exponential("1s", tries=2, jitter=1.5),
        lambda: Exponential("2h", tries=2),
        lambda: Uniform("5s", "1s", tries=2),
        lambda: Fixed("1s", tries=0),
        lambda: Fixed("1s", tries=True),
        lambda: Custom("1s", tries=1),  # type: ignore[arg-type]
        lambda: Tiers(),
    ],
)
def test_a_back_off_that_makes_no_sense_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError):
        make()


def _next(**changes: object) -> int | None:
    facts: dict[str, object] = {
        "retried": 0,
        "failing_ms": 0,
        "left_ms": 60_000,
        "within_ms": None,
        "random": Random(0),
    }
    return next_delay_ms(Tiers.parse("1s x 2, 5s"), **facts | changes)  # type: ignore[arg-type]


def test_after_the_last_try_there_is_none() -> None:
    assert [_next(retried=count) for count in range(5)] == [1000, 1000, 5000, None, None]


def test_no_run_is_planned_at_or_after_the_deadline() -> None:
    assert _next(left_ms=1001) == 1000
    assert _next(left_ms=1000) is None
    assert _next(left_ms=-5) is None


def test_no_run_is_planned_beyond_the_total_time() -> None:
    assert _next(within_ms=3000, failing_ms=2000) == 1000
    assert _next(within_ms=3000, failing_ms=2001) is None
