"""Runs that take too long: their child is killed, and each of its jobs is told for what it was."""

import math
import select
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.pool import ChildDied, EffectAsked, Finished, Job, Outcome, Started
from consumer.pool.handover import HandoverClock
from consumer.pool.jobs_in_child import JobsInChild
from consumer.pool.wire import Report
from feedback.status import State
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import LIMIT_S, Driven, fifo, job
from tests.eventually import eventually

pytestmark = pytest.mark.waits

SHORT_S = 0.3


def _ids(jobs: tuple[Job, ...]) -> list[str]:
    return sorted(one.request_id for one in jobs)


def _started(driven: Driven, count: int) -> None:
    driven.until(lambda: len(driven.told(Started)) >= count)


@pytest.mark.parametrize("topic", ["hold", "hang-coroutine", "hold-the-loop"])
def test_a_run_that_hangs_is_overdue_and_its_child_is_replaced(
    make_pool: MakePool, tmp_path: Path, topic: str
) -> None:
    driven = make_pool()
    hanging = job(topic, fifo(tmp_path), time_limit_s=SHORT_S)
    begun_s = time.monotonic()
    driven.pool.dispatch([hanging])
    death = driven.death()
    took_s = time.monotonic() - begun_s
    assert (death.overdue, death.started, death.not_started) == ((hanging,), (), ())
    assert death.reason == "killed, because a run was past its time limit"
    assert SHORT_S < took_s < LIMIT_S / 2
    driven.pids(2)
    replaced = driven.pool.load.replaced
    assert replaced["overdue"] == sum(replaced.values()) == 1
    assert driven.run([job("coroutine", 1, request_id="r2")])["r2"].result == "1"


def test_a_run_that_waits_at_its_effect_is_on_the_clock(make_pool: MakePool) -> None:
    driven = make_pool()
    driven.pool.dispatch([job("marked", time_limit_s=SHORT_S)])
    assert _ids(driven.death().overdue) == ["r1"]
    assert driven.told(EffectAsked) == [EffectAsked("r1", 1)]


def test_the_other_jobs_of_the_child_are_told_as_after_any_death(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(slots_per_process=3, prefetch=1)
    late = [job("hold", fifo(tmp_path), request_id=f"late-{n}", time_limit_s=1.0) for n in "ab"]
    patient = job("hold", fifo(tmp_path), request_id="patient", time_limit_s=LIMIT_S)
    driven.pool.dispatch([*late, patient, job("echo", request_id="next")])
    death = driven.death()
    # The two started together, so one kill finds both past their limit or only the first.
    assert set(_ids(death.overdue)) <= {"late-a", "late-b"} and death.overdue
    assert sorted(_ids(death.overdue) + _ids(death.started)) == ["late-a", "late-b", "patient"]
    assert "patient" in _ids(death.started)
    assert _ids(death.not_started) == ["next"]


def test_the_clock_of_a_prefetched_job_begins_with_its_run(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(prefetch=1)
    path = fifo(tmp_path)
    held = job("hold", path, request_id="held")
    driven.pool.dispatch([held, job("hang-coroutine", request_id="next", time_limit_s=SHORT_S)])
    _started(driven, 1)
    begun_s = time.monotonic()
    driven.events += driven.pool.poll(SHORT_S * 2)  # longer than the limit of what waits
    assert time.monotonic() - begun_s > SHORT_S
    assert driven.told(ChildDied) == []
    Path(path).write_text("go")
    assert _ids(driven.death().overdue) == ["next"]
    assert driven.outcomes().keys() == {"held"}


def test_a_run_that_has_ended_when_its_limit_is_looked_at_was_in_time(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool()
    path = fifo(tmp_path)
    driven.pool.dispatch([job("hold", path, time_limit_s=SHORT_S)])
    _started(driven, 1)
    over_s = time.monotonic() + SHORT_S
    Path(path).write_text("go")
    (child,) = driven.pool._supervisor.children
    # Its end is on the way, and nobody has read it before its limit is over.
    assert select.select([child.sock], [], [], LIMIT_S)[0]
    eventually(lambda: time.monotonic() > over_s, timeout_s=LIMIT_S)
    driven.until(lambda: driven.told(Finished))
    assert driven.outcomes()["r1"].result == '"go"'
    assert driven.run([job("coroutine", 1, request_id="r2")])["r2"].result == "1"
    assert driven.told(ChildDied) == []


@given(st.lists(st.tuples(st.none() | st.sampled_from([1.0, 2.0, 5.0]), st.integers(0, 9))))
def test_the_next_limit_is_that_of_a_run_that_still_goes_on(
    steps: list[tuple[float | None, int]],
) -> None:
    jobs = JobsInChild(HandoverClock(slots=99, limit_s=math.inf))
    running: dict[int, float] = {}
    for now_s, (limit_s, ending) in enumerate(steps):
        ((number, _),) = jobs.enter([job("t", time_limit_s=limit_s)])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("consumer.pool.jobs_in_child.monotonic_s", lambda: float(now_s))  # noqa: B023
            list(jobs.hear(Report(started=[number])))
        running[number] = math.inf if limit_s is None else now_s + limit_s
        if ending in running:
            list(jobs.hear(Report(finished=[(ending, Outcome(State.SUCCEEDED))])))
            del running[ending]
        assert jobs.first_end_s == min(running.values(), default=math.inf)
        assert jobs.note_overdue(now_s) == (jobs.first_end_s <= now_s)
        _, _, overdue = jobs.ends()
        assert len(overdue) == sum(end_s <= now_s for end_s in running.values())


def test_a_job_without_a_limit_may_take_its_time(make_pool: MakePool, tmp_path: Path) -> None:
    driven = make_pool(processes=2)
    path = fifo(tmp_path)
    driven.pool.dispatch([job("hold", path, request_id="patient")])
    driven.pool.dispatch([job("hang-coroutine", request_id="late", time_limit_s=SHORT_S)])
    assert _ids(driven.death().overdue) == ["late"]
    Path(path).write_text("go")
    driven.until(lambda: "patient" in driven.outcomes())
