"""Children that die, and what is told of their jobs."""

import os
import random
import signal
from pathlib import Path

import pytest

from consumer.pool import ChildDied, ChildReady, Finished, Started
from consumer.pool.respawn_policy import RespawnReason
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import fifo, job

pytestmark = pytest.mark.waits


def test_a_killed_child_tells_its_own_jobs_and_the_others_go_on(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(processes=2, slots_per_process=1, prefetch=1)
    paths = {name: fifo(tmp_path) for name in "abcd"}
    driven.pool.dispatch([job("hold", path, request_id=name) for name, path in paths.items()])
    driven.until(lambda: len(driven.told(Started)) == 2)
    killed = driven.pids(2)[0]
    os.kill(killed, signal.SIGKILL)
    death = driven.death()
    assert (death.pid, death.reason) == (killed, "killed by SIGKILL")
    assert len(death.started) == len(death.not_started) == 1
    lost = {one.request_id for one in (*death.started, *death.not_started)}
    assert death.started[0].request_id in {one.request_id for one in driven.told(Started)}
    for name in sorted(paths.keys() - lost):
        Path(paths[name]).write_text("go")
    driven.until(lambda: len(driven.outcomes()) == 2)
    assert driven.outcomes().keys() == paths.keys() - lost


def test_an_idle_child_that_is_killed_is_replaced_and_the_new_one_takes_work(
    make_pool: MakePool,
) -> None:
    driven = make_pool()
    os.kill(driven.pids(1)[0], signal.SIGKILL)
    death = driven.death()
    assert (death.started, death.not_started) == ((), ())
    assert driven.pool.free_slots == 0
    first, second = driven.pids(2)
    assert first != second
    assert sum(driven.pool.load.replaced.values()) == 1
    assert driven.run([job("coroutine", 1)])["r1"].result == "1"


def test_a_spare_child_stands_in_for_one_that_dies_and_gets_a_spare_itself(
    make_pool: MakePool,
) -> None:
    driven = make_pool(spare_processes=1)
    first, spare = driven.pids(2)
    # It is no place of its own.
    assert (driven.pool.load.ready, driven.pool.free_slots) == (1, 1)
    os.kill(first, signal.SIGKILL)
    assert driven.death().pid == first
    # It stands in before anything else is started.
    assert (driven.pool.load.ready, driven.pool.free_slots) == (1, 1)
    assert len(driven.told(ChildReady)) == 2
    assert f'"pid":{spare}' in str(driven.run([job("echo")])["r1"].result)
    driven.pids(3)
    assert driven.children == 2
    assert driven.pool.free_slots == 1


def test_spares_are_started_when_all_that_serve_are_ready(make_pool: MakePool) -> None:
    driven = make_pool(is_awaited=False, processes=2, spare_processes=2)
    assert driven.children == 2
    driven.pids(2)
    assert driven.children == 4
    driven.pids(4)
    assert (driven.pool.load.ready, driven.pool.free_slots) == (2, 2)


def test_a_spare_that_dies_is_replaced_and_nothing_else_happens(make_pool: MakePool) -> None:
    driven = make_pool(spare_processes=1)
    serving, spare = driven.pids(2)
    os.kill(spare, signal.SIGKILL)
    assert driven.death().pid == spare
    driven.pids(3)
    assert (driven.pool.load.ready, driven.pool.free_slots) == (1, 1)
    os.kill(serving, 0)


def test_a_crash_in_native_code_is_told_with_its_job(make_pool: MakePool) -> None:
    driven = make_pool()
    driven.pool.dispatch([job("segfault")])
    death = driven.death()
    assert death.reason == "killed by SIGSEGV"
    assert [one.request_id for one in death.started] == ["r1"]
    driven.pids(2)
    assert driven.pool.load.replaced == {**dict.fromkeys(map(str, RespawnReason), 0), "died": 1}
    assert driven.run([job("coroutine", 1, request_id="r2")])["r2"].result == "1"


def test_a_dead_child_leaves_no_zombie(make_pool: MakePool) -> None:
    driven = make_pool()
    pid = driven.pids(1)[0]
    os.kill(pid, signal.SIGKILL)
    driven.death()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_results_written_just_before_a_death_come_before_it(make_pool: MakePool) -> None:
    driven = make_pool(slots_per_process=1, prefetch=29)
    jobs = [job("coroutine", "x" * 2000, request_id=f"done-{i:02}") for i in range(20)]
    jobs.append(job("exit-now", 3, request_id="deadly"))
    jobs += [job("echo", request_id=f"after-{i}") for i in range(9)]
    driven.pool.dispatch(jobs)
    death = driven.death()
    assert death.reason == "exited with code 3"
    assert [one.request_id for one in death.started] == ["deadly"]
    assert [one.request_id for one in death.not_started] == [f"after-{i}" for i in range(9)]
    before = driven.events[: driven.events.index(death)]
    assert sum(isinstance(event, Finished) for event in before) == 20


def test_a_fork_that_a_handler_leaves_behind_does_not_hide_its_death(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool()
    path = fifo(tmp_path)
    driven.pool.dispatch([job("fork-and-hold", path)])
    death = driven.death()
    assert death.reason == "exited with code 7"
    Path(path).write_text("go")  # lets the fork end


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x00\x00\x02\x00\x00\x00\x00{]",
        b"\x00\x00\x00\x02\x00\x00\x00\x00[]",
        b"\xff\xff\xff\xff\x00\x00\x00\x00",
        b'\x00\x00\x00\x0e\x00\x00\x00\x00{"started":[9]',
        b'\x00\x00\x00\x0f\x00\x00\x00\x00{"started":[9]}',
        b'\x00\x00\x00\x0d\x00\x00\x00\x00{"started":5}',
        b'\x00\x00\x00\x2a\x00\x00\x00\x00{"finished":[[1,"SUCCEEDED",5,null,null]]}',
        b'\x00\x00\x00\x20\x00\x00\x00\x00{"finished":[[1,"SUCCEEDED",5]]}',
        b'\x00\x00\x00\x1e\x00\x00\x00\x00{"finished":[[1,"PENDING",-1]]}',
        b'\x00\x00\x00\x17\x00\x00\x00\x00{"finished":[[1,[],-1]]}',
        b'\x00\x00\x00\x26\x00\x00\x00\x00{"finished":[["1","SUCCEEDED",-1,0,0]]}',
    ],
)
def test_a_malformed_frame_from_a_child_is_its_death(make_pool: MakePool, garbage: bytes) -> None:
    driven = make_pool(prefetch=1)
    driven.pool.dispatch([job("write-raw", garbage.hex()), job("echo", request_id="next")])
    death = driven.death()
    assert death.reason.startswith("sent a malformed frame: ")
    # Nobody can know what it started after that, so neither counts as not started.
    assert [one.request_id for one in death.started] == ["r1", "next"]
    assert death.not_started == ()
    driven.pids(2)
    assert driven.run([job("coroutine", 1, request_id="r2")])["r2"].result == "1"


def test_whatever_is_killed_every_job_ends_once_and_the_unstarted_have_not_run(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(processes=3, slots_per_process=3, prefetch=3)
    ran = tmp_path / "ran"
    ran.touch()
    dice = random.Random(7)
    waiting = [job("record", str(ran), request_id=f"r{i}") for i in range(600)]
    ended: list[str] = []
    killed: list[int] = []
    seen = 0
    while waiting or len(ended) < 600:
        batch, waiting = waiting[: driven.pool.free_slots], waiting[driven.pool.free_slots :]
        driven.pool.dispatch(batch)
        driven.events += driven.pool.poll(1)
        for event in driven.events[seen:]:
            if isinstance(event, Finished):
                ended.append(event.request_id)
            if isinstance(event, ChildDied):
                ended += [one.request_id for one in event.started]
                ran_by_then = set(ran.read_text().split())
                assert not ran_by_then & {one.request_id for one in event.not_started}
                waiting += event.not_started
        seen = len(driven.events)
        living = [one.pid for one in driven.told(ChildReady) if one.pid not in killed]
        if living and dice.random() < 0.1 and len(killed) < 12:
            killed.append(dice.choice(living))
            os.kill(killed[-1], signal.SIGKILL)
    assert sorted(ended) == sorted(f"r{i}" for i in range(600))
    written = ran.read_text().split()
    assert len(written) == len(set(written))
    assert driven.outcomes().keys() <= set(written)
    assert driven.told(ChildDied)


def test_killing_the_pool_tells_the_last_results_and_the_jobs_that_were_running(
    make_pool: MakePool, tmp_path: Path
) -> None:
    driven = make_pool(processes=2, slots_per_process=1, prefetch=1)
    done = tmp_path / "done"
    jobs = [job("hold", fifo(tmp_path), request_id="held"), job("record", str(done))]
    driven.pool.dispatch(jobs)
    driven.until(lambda: len(driven.told(Started)) == 2 and driven.outcomes())
    driven.pool.dispatch([job("echo", request_id="waiting"), job("echo", request_id="quick")])
    driven.kill()
    deaths = driven.told(ChildDied)
    assert len(deaths) == 2
    lost = [one for death in deaths for one in (*death.started, *death.not_started)]
    ended = {one.request_id for one in lost} | driven.outcomes().keys()
    assert ended == {"held", "r1", "waiting", "quick"}
    assert "held" in {one.request_id for death in deaths for one in death.started}


def test_stopping_ends_idle_children_by_themselves(make_pool: MakePool, tmp_path: Path) -> None:
    note = tmp_path / "note"
    (tmp_path / "noting_handlers.py").write_text(
        "import atexit, pathlib\n"
        "from consumer.handlers.decorator import handler\n"
        f"atexit.register(lambda: pathlib.Path({str(note)!r}).write_text('left'))\n"
        "@handler(topic='noop')\n"
        "def noop(request): return None\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        driven = make_pool(handlers=("noting_handlers",))
    driven.run([job("noop")])
    driven.pool.stop(60)
    assert note.read_text() == "left"


def test_stopping_kills_what_does_not_end(make_pool: MakePool, tmp_path: Path) -> None:
    driven = make_pool()
    pid = driven.pids(1)[0]
    driven.pool.dispatch([job("hold", fifo(tmp_path))])
    driven.until(lambda: driven.told(Started))
    driven.pool.stop(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
