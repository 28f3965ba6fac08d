"""When failures are an outage, and when it is over."""

from __future__ import annotations

import pytest

from consumer.features.pausing.circuit_breaker import (
    FINE,
    BreakerChange,
    CircuitBreaker,
    FailureKind,
)

DOWN = FailureKind("HANDLER_ERROR", "ConnectionError")
SLOW = FailureKind("TIMEOUT")


def guard(*, share: float = 0.5, window: int = 10, probes: int = 1) -> CircuitBreaker:
    """Return a guard that pauses at the sixth failure of ten, if no test says otherwise."""
    return CircuitBreaker(share=share, window=window, probes=probes)


def feed(one: CircuitBreaker, *ways: FailureKind | None, now_s: float = 0.0) -> list[BreakerChange]:
    """Let runs end; return what that changed."""
    changes = [one.ended("payments", f"r{at}", way, now_s) for at, way in enumerate(ways)]
    return [change for change in changes if change is not None]


def paused(**facts: int) -> CircuitBreaker:
    """Return a guard that has paused `payments` at 0 s."""
    made = guard(**facts)
    assert feed(made, *[DOWN] * 6) == [BreakerChange.PAUSED]
    return made


def test_more_than_the_share_of_the_window_is_an_outage_and_the_share_itself_is_none() -> None:
    one = guard()
    assert feed(one, *[DOWN] * 5) == []
    assert one.outages == {}
    assert feed(one, DOWN) == [BreakerChange.PAUSED]
    assert one.outages["payments"].way == DOWN


def test_failures_of_several_ways_are_none() -> None:
    assert feed(guard(), *[DOWN, SLOW] * 5) == []
    assert feed(guard(), *[DOWN, FailureKind("HANDLER_ERROR", "KeyError")] * 5) == []


def test_only_the_last_runs_count() -> None:
    one = guard()
    assert feed(one, *[DOWN] * 5, *[FINE] * 10, *[DOWN] * 5) == []
    assert feed(one, DOWN) == [BreakerChange.PAUSED]


def test_successes_are_never_an_outage() -> None:
    assert feed(guard(), *[FINE] * 50) == []


def test_what_says_nothing_neither_fills_the_window_nor_empties_it() -> None:
    one = guard()
    assert feed(one, *[DOWN] * 5, *[None] * 50) == []
    assert feed(one, DOWN) == [BreakerChange.PAUSED]


def test_topics_are_judged_apart() -> None:
    one = guard()
    for at in range(5):
        for topic in ("payments", "refunds"):
            assert one.ended(topic, f"{at}", DOWN, 0.0) is None
    assert one.ended("refunds", "r", DOWN, 0.0) is BreakerChange.PAUSED
    assert set(one.outages) == {"refunds"}


def test_a_share_of_nothing_turns_it_off() -> None:
    assert feed(guard(share=0.0), *[DOWN] * 100) == []


def test_probes_go_after_1_2_and_4_seconds_and_then_every_4() -> None:
    one = paused()
    at_s, went = 0.0, []
    while at_s < 20:
        if one.may_probe("payments", at_s):
            went.append(at_s)
            one.probes("payments", f"p{at_s}", at_s)
            assert one.ended("payments", f"p{at_s}", DOWN, at_s) is None
        at_s += 0.25
    assert went == [1.0, 3.0, 7.0, 11.0, 15.0, 19.0]
    assert one.outages["payments"].tried == 6


def test_the_first_probe_that_succeeds_ends_it() -> None:
    one = paused()
    one.probes("payments", "p", 1.0)
    assert one.ended("payments", "p", FINE, 1.2) is BreakerChange.RESUMED
    assert one.outages == {}


def test_a_probe_that_fails_otherwise_does_not_end_it() -> None:
    one = paused()
    one.probes("payments", "p", 1.0)
    assert one.ended("payments", "p", SLOW, 1.2) is None
    assert "payments" in one.outages


def test_runs_that_began_before_the_pause_do_not_end_it() -> None:
    one = paused()
    assert one.ended("payments", "old", FINE, 0.5) is None
    assert "payments" in one.outages


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_probe_that_says_nothing_is_followed_by_the_next_at_once(is_lost: bool) -> None:
    one = paused()
    one.probes("payments", "p", 1.0)
    assert not one.may_probe("payments", 1.5)
    if is_lost:
        one.lost("payments", "p", 1.5)
    else:
        assert one.ended("payments", "p", None, 1.5) is None
    assert one.may_probe("payments", 1.6)
    # And the one after that goes by its own time.
    one.probes("payments", "q", 1.6)
    one.ended("payments", "q", DOWN, 1.7)
    assert not one.may_probe("payments", 5.5)
    assert one.may_probe("payments", 5.6)


def test_no_more_probes_run_at_once_than_are_allowed() -> None:
    one = paused(probes=2)
    for at_s in (1.0, 3.0):
        one.probes("payments", f"p{at_s}", at_s)
    assert not one.may_probe("payments", 60.0)
    assert one.next_probe_s() is None
    one.ended("payments", "p1.0", SLOW, 60.0)
    assert one.may_probe("payments", 60.0)


def test_a_topic_that_was_opened_too_early_is_closed_by_its_first_failure() -> None:
    one = paused()
    feed(one, *[DOWN] * 4)
    one.probes("payments", "p", 1.0)
    assert one.ended("payments", "p", FINE, 1.2) is BreakerChange.RESUMED
    assert feed(one, DOWN) == [BreakerChange.PAUSED]


def test_a_topic_that_was_opened_in_time_takes_single_failures() -> None:
    one = paused()
    one.probes("payments", "p", 1.0)
    one.ended("payments", "p", FINE, 1.2)
    assert feed(one, *[FINE] * 5, DOWN, FINE, DOWN) == []
