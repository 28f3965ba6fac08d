"""Children that have done their share or have grown: replaced without a request noticing."""

import os
import select
import signal
from pathlib import Path

import psutil
import pytest

from consumer.pool import (
    ChildDied,
    ChildFailed,
    ChildReady,
    ChildRetired,
    Started,
    child_process,
    memory,
)
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import LIMIT_S, Driven, fifo, job

pytestmark = pytest.mark.waits

MIB = 2**20
# Twice what a child of these tests has by itself, at least.
LIMIT_BYTES = 100 * MIB
GROWTH_MIB = 90  # over the limit, below twice the limit
RUNAWAY_MIB = 250


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "LOOK_EVERY_S", 0.1)


def _retired(driven: Driven, count: int) -> list[ChildRetired]:
    driven.until(lambda: len(driven.told(ChildRetired)) >= count)
    return driven.told(ChildRetired)


def _only(reason: str, count: int, driven: Driven) -> bool:
    replaced = driven.pool.load.replaced
    return replaced[reason] == sum(replaced.values()) == count


def test_a_child_that_has_had_its_requests_is_replaced_without_a_word_of_its_jobs(
    make_pool: MakePool,
) -> None:
    driven = make_pool(max_requests_per_child=3)
    for number in range(3):
        assert driven.pool.free_slots == 1
        driven.run([job("coroutine", number, request_id=f"r{number}")])
    first, second = driven.pids(2)
    assert _retired(driven, 1) == [ChildRetired(first, "it has had its requests")]
    assert driven.run([job("coroutine", 3, request_id="r3")])["r3"].result == "3"
    assert driven.told(ChildDied) == []
    assert _only("max_requests", 1, driven)
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    os.kill(second, 0)


def test_no_child_gets_more_requests_than_it_may_have(make_pool: MakePool) -> None:
    driven = make_pool(slots_per_process=4, prefetch=4, max_requests_per_child=5)
    assert driven.pool.free_slots == 5
    driven.pool.dispatch([job("echo", request_id=f"r{number}") for number in range(4)])
    assert driven.pool.free_slots == 1


def test_a_successor_is_there_while_the_last_run_of_a_retired_child_goes_on(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(max_requests_per_child=1)
    paths = [fifo(tmp_path), fifo(tmp_path)]
    driven.pool.dispatch([job("hold", paths[0], request_id="first")])
    driven.pids(2)
    assert driven.pool.load.ready == driven.pool.free_slots == 1
    driven.pool.dispatch([job("hold", paths[1], request_id="second")])
    # Both are retired and busy: a third waits until one has ended, or they would fill the host.
    assert driven.children == 2
    Path(paths[0]).write_text("go")
    driven.pids(3)
    assert driven.pool.free_slots == 1
    Path(paths[1]).write_text("go")
    driven.until(lambda: driven.outcomes().keys() == {"first", "second"})
    assert len(_retired(driven, 2)) == 2
    assert driven.told(ChildDied) == []


def test_under_load_children_come_and_go_and_no_job_is_lost_or_runs_twice(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(processes=2, slots_per_process=2, prefetch=2, max_requests_per_child=25)
    ran = tmp_path / "ran"
    waiting = [job("record", str(ran), request_id=f"r{number}") for number in range(200)]
    while waiting or len(driven.outcomes()) < 200:
        free = driven.pool.free_slots
        driven.pool.dispatch(waiting[:free])
        del waiting[:free]
        driven.events += driven.pool.poll(1)
    assert sorted(ran.read_text().split()) == sorted(f"r{number}" for number in range(200))
    assert driven.told(ChildDied) == []
    assert len(driven.told(Started)) == 200
    assert driven.pool.load.replaced["max_requests"] >= 200 // 25 - 1


def test_a_retired_child_that_dies_in_its_last_run_tells_it_and_is_replaced_once(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(max_requests_per_child=1)
    driven.pool.dispatch([job("hold", fifo(tmp_path))])
    first, _ = driven.pids(2)
    os.kill(first, signal.SIGKILL)
    death = driven.death()
    assert (death.pid, [one.request_id for one in death.started]) == (first, ["r1"])
    assert driven.pool.free_slots == 1
    assert driven.told(ChildRetired) == []
    assert _only("max_requests", 1, driven)


def test_a_retired_child_that_does_not_exit_is_killed(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "_RETIRED_EXIT_LIMIT_S", 0.3)
    (tmp_path / "staying_handlers.py").write_text(
        "import atexit, pathlib\n"
        "from consumer.handlers.decorator import handler\n"
        f"atexit.register(lambda: pathlib.Path({fifo(tmp_path)!r}).read_text())\n"
        "@handler(topic='noop')\n"
        "def noop(request): return None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    driven = make_pool(handlers=("staying_handlers",), max_requests_per_child=1)
    driven.run([job("noop")])
    assert _retired(driven, 1)[0].pid == driven.pids(1)[0]


def test_a_child_that_has_grown_finishes_what_it_holds_and_is_replaced(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(prefetch=1, memory_limit_bytes=LIMIT_BYTES)
    path = fifo(tmp_path)
    driven.pool.dispatch([job("grow", {"mib": GROWTH_MIB, "fifo": path}, request_id="large")])
    driven.pool.dispatch([job("coroutine", 1, request_id="next")])
    first, second = driven.pids(2)  # the successor comes while the large run goes on
    assert driven.outcomes() == {}
    Path(path).write_text("go")
    driven.until(lambda: driven.outcomes().keys() == {"large", "next"})
    (retired,) = _retired(driven, 1)
    assert retired.pid == first != second
    assert retired.reason.startswith("over its memory limit: ")
    assert retired.reason.endswith(" MiB of 100 MiB")
    assert driven.told(ChildDied) == []
    assert _only("memory", 1, driven)


def test_an_idle_child_that_has_grown_is_replaced(make_pool: MakePool) -> None:
    driven = make_pool(memory_limit_bytes=LIMIT_BYTES)
    driven.run([job("grow", {"mib": GROWTH_MIB})])
    assert _retired(driven, 1)[0].pid == driven.pids(1)[0]
    assert driven.told(ChildDied) == []


def test_a_busy_child_at_twice_its_limit_is_killed_at_once(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(memory_limit_bytes=LIMIT_BYTES)
    driven.pool.dispatch([job("grow", {"mib": RUNAWAY_MIB, "fifo": fifo(tmp_path)})])
    death = driven.death()
    assert death.reason.startswith("killed, because it was over its memory limit: ")
    assert [one.request_id for one in death.started] == ["r1"]
    driven.pids(2)
    assert _only("memory", 1, driven)


@pytest.mark.parametrize("share", [0.01, 0.7])
def test_a_limit_below_what_the_handlers_need_is_a_failed_start_and_no_loop(
    make_pool: MakePool, share: float
) -> None:
    needed_bytes = psutil.Process(make_pool().pids(1)[0]).memory_info().rss
    driven = make_pool(is_awaited=False, memory_limit_bytes=int(share * needed_bytes))
    driven.until(lambda: driven.pool.broken, timeout_s=60)
    assert "over its memory limit" in (driven.pool.broken or "")
    assert _only("start_failed", 5, driven)
    # Far above the limit they are killed while they start, else they retire without a job.
    assert len(driven.told(ChildFailed)) + len(driven.told(ChildReady)) == 5


def test_a_child_whose_readiness_is_heard_when_it_is_weighed_has_its_place(
    make_pool: MakePool,
) -> None:
    driven = make_pool(is_awaited=False, memory_limit_bytes=MIB)
    # It has told that it is ready, and nothing was read yet: the first poll weighs it first.
    assert select.select([driven.pool._supervisor.children[0].sock], [], [], LIMIT_S)[0]
    assert _retired(driven, 1)[0].reason.startswith("over its memory limit: ")


def test_stopping_the_pool_ends_its_retired_children_too(make_pool: MakePool) -> None:
    driven = make_pool(max_requests_per_child=1)
    driven.run([job("echo")])
    driven.pool.stop(60)
    assert driven.children == 0
