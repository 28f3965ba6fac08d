"""What each mode could reach at most, by arithmetic and by a schedule without any overhead."""

import heapq
from itertools import pairwise

import pytest

from tests.bench.modes.arm import Arm, Delays
from tests.bench.modes.calls import Call
from tests.bench.modes.mode import Mode, ceiling_tps
from tests.bench.modes.plan import Case, Plan
from tests.bench.modes.steady import steady


def ideal(mode: Mode, delays: Delays, n: int, *, load_s: float) -> list[Call]:
    """Return the calls that would be answered in time if nothing but them took any."""
    calls = []
    free_s = [0.0] * n
    counter, now_s = 0, 0.0
    while now_s < load_s:
        if mode is Mode.BATCH and counter % n == 0:
            free_s = [max(free_s)] * n
        now_s = heapq.heappop(free_s)
        takes_s = delays.of(counter)
        heapq.heappush(free_s, now_s + takes_s)
        calls.append(Call(str(counter), now_s, now_s + takes_s, takes_s))
        counter += 1
    answered = [call for call in calls if call.answered_s <= load_s]
    return sorted(answered, key=lambda call: call.answered_s)


@pytest.mark.parametrize(
    ("mode", "arm", "n", "tps"),
    [
        (Mode.AT_MOST_ONCE, Arm.SLOW, 10, 35.7),
        (Mode.AT_LEAST_ONCE, Arm.SLOW, 50, 178.6),
        (Mode.BATCH, Arm.SLOW, 10, 10.0),
        (Mode.BATCH, Arm.SLOW, 50, 50.0),
        (Mode.BATCH, Arm.CONTROL, 10, 50.0),
        (Mode.AT_MOST_ONCE, Arm.CONTROL, 50, 250.0),
        (Mode.AT_LEAST_ONCE, Arm.ONE_PERCENT_60S, 50, 62.7),
        (Mode.BATCH, Arm.ONE_PERCENT_60S, 50, 1.7),
    ],
)
def test_the_ceilings_are_those_that_were_published(
    mode: Mode, arm: Arm, n: int, tps: float
) -> None:
    assert round(ceiling_tps(mode, arm.delays, n), 1) == tps


def test_a_batch_that_is_no_part_of_the_cycle_has_a_slow_record_now_and_then() -> None:
    # Of four batches of 5, every second one has the slow record of its ten.
    assert ceiling_tps(Mode.BATCH, Arm.SLOW.delays, 5) == pytest.approx(5 / 0.6)


@pytest.mark.parametrize("case", list(Plan(tuple(Mode), tuple(Arm)).cases()), ids=str)
def test_a_schedule_without_overhead_is_measured_at_its_ceiling(case: Case) -> None:
    calls = ideal(case.mode, case.arm.delays, case.n, load_s=case.load_s)
    found = steady(calls, case.arm.delays, case.n)
    assert found.tps == pytest.approx(case.ceiling_tps, rel=0.003)
    assert found.late_ms == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("case", list(Plan(tuple(Mode), tuple(Arm)).cases()), ids=str)
def test_the_topic_never_runs_dry(case: Case) -> None:
    started = len(ideal(case.mode, case.arm.delays, case.n, load_s=case.load_s)) + case.n
    assert case.records > started + 4 * case.n  # those that wait in the worker's buffer


def test_the_modes_of_one_drawing_follow_each_other() -> None:
    cases = list(Plan(tuple(Mode), tuple(Arm)).cases())
    drawings = [(case.arm, case.n) for case in cases]
    assert len(set(drawings)) == 1 + sum(one != other for one, other in pairwise(drawings)) == 5


def test_what_cannot_be_shared_by_the_processes_is_refused() -> None:
    with pytest.raises(ValueError, match="7 is not a multiple"):
        Plan(tuple(Mode), tuple(Arm), sizes=(10, 7))
