"""How many run at the same time, where, and how jobs are shared out."""

import json
from pathlib import Path

import pytest

from consumer.pool import PoolLoad, Started
from consumer.pool.respawn_policy import RespawnReason
from feedback.clock import monotonic_s
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import fifo, job

NONE_REPLACED = dict.fromkeys(map(str, RespawnReason), 0)


@pytest.mark.parametrize("topic", ["meet-in-threads", "meet-on-loop"])
def test_all_slots_of_a_child_run_at_the_same_time(make_pool: MakePool, topic: str) -> None:
    driven = make_pool(slots_per_process=8)
    outcomes = driven.run([job(topic, 8, request_id=str(i)) for i in range(8)])
    assert {one.result for one in outcomes.values()} == {str(driven.pids(1)[0])}


def test_slots_are_never_exceeded_when_more_is_prefetched(make_pool: MakePool) -> None:
    driven = make_pool(slots_per_process=3, prefetch=30)
    outcomes = driven.run([job("most-at-once", request_id=str(i)) for i in range(33)])
    assert max(int(one.result or "") for one in outcomes.values()) <= 3


def test_plain_handlers_and_coroutines_share_the_slots(make_pool: MakePool, tmp_path: Path) -> None:
    driven = make_pool(slots_per_process=1, prefetch=2)
    path = fifo(tmp_path)
    jobs = [job("hold", path, request_id="held"), job("coroutine", 1, request_id="next")]
    driven.pool.dispatch([*jobs, job("echo", request_id="last")])
    driven.until(lambda: driven.told(Started))
    assert driven.pool.poll(0.2) == []  # the coroutine waits, although the loop is free
    Path(path).write_text("go")
    driven.until(lambda: len(driven.outcomes()) == 3)
    assert [one.request_id for one in driven.told(Started)] == ["held", "next", "last"]


def test_a_start_alone_ends_no_poll(make_pool: MakePool, tmp_path: Path) -> None:
    driven, path = make_pool(slots_per_process=1), fifo(tmp_path)
    driven.pids(1)
    driven.pool.dispatch([job("hold", path)])
    began_s = monotonic_s()
    assert driven.pool.poll(1.0) == [Started("r1", 1)]
    assert monotonic_s() - began_s >= 1.0
    Path(path).write_text("go")
    driven.until(driven.outcomes)


def test_a_prefetched_job_is_started_only_when_a_slot_takes_it(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(slots_per_process=1, prefetch=1)
    path = fifo(tmp_path)
    held = job("hold", path, request_id="held")
    driven.pool.dispatch([held, job("echo", request_id="waiting")])
    driven.until(lambda: driven.told(Started))
    assert driven.pool.load == PoolLoad(ready=1, busy=1, replaced=NONE_REPLACED)
    assert driven.pool.free_slots == 0
    Path(path).write_text("go")
    driven.until(lambda: len(driven.outcomes()) == 2)
    assert driven.pool.load == PoolLoad(ready=1, busy=0, replaced=NONE_REPLACED)
    assert driven.pool.free_slots == 2


def test_jobs_go_to_the_child_with_most_room(make_pool: MakePool, tmp_path: Path) -> None:
    driven = make_pool(processes=2, slots_per_process=2)
    path = fifo(tmp_path)
    driven.pool.dispatch([job("hold", path, request_id="held")])
    outcomes = driven.run([job("echo", request_id=str(i)) for i in range(3)])
    pids = [json.loads(one.result or "")["pid"] for one in outcomes.values()]
    assert sorted(pids.count(pid) for pid in set(pids)) == [1, 2]
    Path(path).write_text("go")
    driven.until(lambda: "held" in driven.outcomes())


def test_more_jobs_than_free_slots_are_refused_and_none_is_given(make_pool: MakePool) -> None:
    driven = make_pool(slots_per_process=2)
    with pytest.raises(ValueError, match="3 jobs for 2 free slots"):
        driven.pool.dispatch([job("echo", request_id=str(i)) for i in range(3)])
    assert driven.pool.free_slots == 2


def test_a_thousand_jobs_in_small_batches_all_end_once(make_pool: MakePool) -> None:
    driven = make_pool(processes=2, slots_per_process=4, prefetch=4)
    topics = ["echo", "coroutine"]
    for first in range(0, 1000, 10):
        batch = [job(topics[i % 2], request_id=str(i)) for i in range(first, first + 10)]
        driven.run(batch)
    assert len(driven.outcomes()) == 1000
    assert len(driven.told(Started)) == 1000
