"""How many requests end in a second, and how long they take: by worker, and of all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from consumer.ops.health.pace import GROWTH, MOST_STEPS, TopicPace, WorkersPace, step_of
from consumer.ops.health.pace_meter import PaceMeter
from feedback.status import State
from tests.consumer.samples import delivery, row, settled


@dataclass
class Clock:
    """A clock that a test sets."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """Return the clock of the meter."""
    return Clock()


@pytest.fixture
def meter(clock: Clock) -> PaceMeter:
    """Return a meter that begins now."""
    return PaceMeter(clock)


def _ends(meter: PaceMeter, clock: Clock, took_s: float, **changes: object) -> None:
    one = settled(delivery("a", buffered_s=clock.now_s - took_s))
    meter.ended(replace(one, **changes))  # type: ignore[arg-type]


def test_an_end_counts_by_its_duration_for_an_hour(meter: PaceMeter, clock: Clock) -> None:
    assert meter.seen() == {}
    clock.now_s += 10
    for took_s in (0.5, 0.5, 3.0):
        _ends(meter, clock, took_s)
    (pace,) = meter.seen().values()
    assert (pace.over_s, pace.ended, pace.per_s) == (10, 3, 0.3)
    assert pace.steps == {step_of(0.5): 2, step_of(3.0): 1}
    clock.now_s += 3500
    _ends(meter, clock, 0.5)
    (pace,) = meter.seen().values()
    assert pace.ended == 4 and 3500 < pace.over_s <= 3600
    clock.now_s += 100
    (pace,) = meter.seen().values()
    assert (pace.ended, pace.steps) == (1, {step_of(0.5): 1}) and 3500 < pace.over_s <= 3600
    clock.now_s += 7200
    assert meter.seen() == {}


def test_what_is_no_end_of_a_request_does_not_count(meter: PaceMeter, clock: Clock) -> None:
    meter.ended(settled(delivery("a"), State.RETRYING))
    _ends(meter, clock, 1.0, finish=None)
    _ends(meter, clock, 1.0, stands=False)
    assert meter.seen() == {}


def test_what_ends_without_a_first_run_is_counted_and_not_timed(
    meter: PaceMeter, clock: Clock
) -> None:
    clock.now_s += 2
    again, never = delivery("a"), row("b", "SKIPPED", topic="payments")
    meter.ended(settled(again, generation=2))
    meter.ended(settled(again._replace(wakes=1)))
    meter.never_ran(never, again.record)
    meter.concluded(never)
    (pace,) = meter.seen().values()
    assert (pace.ended, pace.per_s, pace.steps) == (4, 2.0, {})
    assert pace.within_s(0.95) is None


def test_a_clock_that_stands_still_is_no_division_by_zero(meter: PaceMeter, clock: Clock) -> None:
    _ends(meter, clock, 0.0)
    assert [one.per_s for one in meter.seen().values()] == [0.0]


def test_the_paces_of_workers_add_up() -> None:
    slow = TopicPace(ended=10, over_s=10, steps={20: 10})
    quick = TopicPace(ended=90, over_s=100, steps={1: 90})
    both = WorkersPace([slow, quick])
    assert both.per_s == pytest.approx(1.9)
    assert both.p95_s == pytest.approx(0.001 * GROWTH**20)
    assert WorkersPace([]).p95_s is None


@pytest.mark.parametrize("seconds", [0.0011, 0.03, 1.0, 59.0, 3600.0])
def test_a_duration_is_told_at_most_a_step_too_long(seconds: float) -> None:
    told = TopicPace(over_s=1, steps={step_of(seconds): 1}).within_s(0.95)
    assert told is not None and seconds <= told * 1.000001 and told <= seconds * GROWTH
    assert step_of(1e300) == MOST_STEPS
