"""Children that do not start what they are given are killed; what they had has not begun."""

import math
import os
import signal
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.pool import ChildDied, Finished, Started
from consumer.pool.handover import LATE_AFTER_S, HandoverClock
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import LIMIT_S, Driven, fifo, job
from tests.eventually import eventually

pytestmark = pytest.mark.waits

# A child that is awake starts within it also when others keep it from its processor.
SHORT_S = 1.5


def _stop(pid: int) -> None:
    """Stop a process, and return when it is."""
    os.kill(pid, signal.SIGSTOP)
    stat = Path(f"/proc/{pid}/stat")
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", timeout_s=LIMIT_S)


def _dies_of(driven: Driven, *ids: str) -> None:
    """Wait for the death of the child that has not started these."""
    death = driven.death()
    assert (
        death.reason == f"killed, because it had not started what it was given {SHORT_S} s before"
    )
    assert (death.started, death.overdue) == ((), ())
    assert [one.request_id for one in death.not_started] == list(ids)


def test_a_stopped_child_is_killed_and_what_it_was_given_has_not_started(
    make_pool: MakePool,
) -> None:
    driven = make_pool(handover_timeout_s=SHORT_S)
    _stop(driven.pids(1)[0])
    driven.pool.dispatch([job("echo", time_limit_s=LIMIT_S)])
    _dies_of(driven, "r1")
    driven.pids(2)
    assert driven.pool.load.replaced["stuck"] == sum(driven.pool.load.replaced.values()) == 1
    assert driven.run([job("coroutine", 1)])["r1"].result == "1"


def test_a_child_whose_interpreter_a_thread_holds_is_killed_with_its_next_job(
    make_pool: MakePool,
) -> None:
    driven = make_pool(handover_timeout_s=SHORT_S)
    driven.run([job("leave-wedged", request_id="leaves")])
    given = 0
    # The thread takes the lock some time after the return: between two jobs, or while one runs.
    # That one has started, and ends by its time limit.
    while not driven.told(ChildDied):
        if driven.pool.free_slots:
            given += 1
            next_job = job("echo", request_id=f"r{given}", time_limit_s=SHORT_S)
            driven.pool.dispatch([next_job])
        driven.events += driven.pool.poll(0.01)
    assert f"r{given}" not in driven.outcomes()
    lost = driven.death()
    held = (*lost.started, *lost.not_started, *lost.overdue)
    assert [one.request_id for one in held] == [f"r{given}"]


def test_a_child_that_owes_a_start_is_given_nothing_else_and_is_told_of(
    make_pool: MakePool,
) -> None:
    driven = make_pool(slots_per_process=4, handover_timeout_s=LIMIT_S)
    (pid,) = driven.pids(1)
    _stop(pid)
    driven.pool.dispatch([job("echo")])
    assert (driven.pool.free_slots, driven.pool.load.late) == (3, 0)
    begun_s = time.monotonic()
    while not driven.pool.load.late:
        assert time.monotonic() - begun_s < LIMIT_S
        driven.events += driven.pool.poll(0.2)
    assert driven.pool.free_slots == 0
    assert driven.pool.load.late_s >= LATE_AFTER_S
    os.kill(pid, signal.SIGCONT)
    driven.until(lambda: driven.told(Finished))
    assert (driven.pool.free_slots, driven.pool.load.late) == (4, 0)
    assert driven.told(ChildDied) == []


def test_a_job_that_waits_in_its_child_for_a_slot_owes_no_start(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(prefetch=1, handover_timeout_s=SHORT_S)
    path = fifo(tmp_path)
    driven.pool.dispatch([job("hold", path), job("echo", request_id="next")])
    driven.until(lambda: driven.told(Started))
    over_s = time.monotonic() + 2 * SHORT_S
    while time.monotonic() < over_s:
        driven.events += driven.pool.poll(over_s - time.monotonic())
    Path(path).write_text("go")
    driven.until(lambda: len(driven.outcomes()) == 2)
    assert driven.told(ChildDied) == []


def test_a_start_that_nobody_here_had_read_was_in_time(make_pool: MakePool, tmp_path: Path) -> None:
    driven = make_pool(handover_timeout_s=SHORT_S)
    path = fifo(tmp_path)
    driven.pool.dispatch([job("hold", path)])
    over_s = time.monotonic() + SHORT_S
    eventually(lambda: time.monotonic() > over_s, timeout_s=LIMIT_S)
    driven.until(lambda: driven.told(Started))
    Path(path).write_text("go")
    driven.until(lambda: driven.told(Finished))
    assert driven.told(ChildDied) == []


@pytest.mark.parametrize("limit_s", [0.5, 10.0])
def test_a_parent_that_stood_still_gives_its_children_time(limit_s: float) -> None:
    clock = HandoverClock(slots=1, limit_s=limit_s)
    with patch("consumer.pool.handover.monotonic_s", lambda: 100.0):
        clock.note(held=1, running=0, has_started=False)
    clock.forgive(1000.0, 1100.0)
    assert not clock.is_over(1100.0)
    assert clock.is_over(1100.0 + limit_s)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans(), st.integers(0, 9))),
    st.integers(1, 4),
)
def test_the_clock_runs_exactly_while_a_start_is_owed(
    steps: list[tuple[int, int, bool, int]], slots: int
) -> None:
    clock, now_s, since_s = HandoverClock(slots=slots, limit_s=5.0), 0.0, math.inf
    for waiting, running, has_started, later_s in steps:
        now_s += later_s
        with patch("consumer.pool.handover.monotonic_s", lambda: now_s):  # noqa: B023
            clock.note(held=running + waiting, running=running, has_started=has_started)
        if not (waiting and running < slots):
            since_s = math.inf
        elif has_started or since_s == math.inf:
            since_s = now_s
        assert clock.since_s == since_s
        assert clock.is_over(now_s) == (now_s - since_s >= 5.0)
        assert clock.is_late == (now_s - since_s >= LATE_AFTER_S)
        assert clock.due_s > now_s or clock.is_over(now_s)
