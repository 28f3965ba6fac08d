"""What the parent may rely on: it never blocks, it is woken, and signals keep off its children."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from consumer.pool import ChildReady
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import LIMIT_S, fifo, job


def test_the_parent_does_not_block_on_a_child_that_does_not_read(make_pool: MakePool) -> None:
    driven = make_pool(processes=2, slots_per_process=50)
    stopped = driven.pids(2)[0]
    os.kill(stopped, signal.SIGSTOP)
    value = b'"' + b"x" * 2**20 + b'"'
    jobs = [job("coroutine", request_id=str(i), value=value) for i in range(100)]
    begun_s = time.monotonic()
    driven.pool.dispatch(jobs)
    took_s = time.monotonic() - begun_s
    driven.until(lambda: len(driven.outcomes()) == 50)  # those of the other child
    # Blocked, it would never end: the child is stopped until all others have answered.
    assert took_s < LIMIT_S
    os.kill(stopped, signal.SIGCONT)
    driven.until(lambda: len(driven.outcomes()) == 100)
    assert {one.code for one in driven.outcomes().values()} == {"RESULT_TOO_LARGE"}


def test_results_larger_than_a_socket_buffer_come_when_the_parent_reads_again(
    make_pool: MakePool,
) -> None:
    driven = make_pool(slots_per_process=8, prefetch=16, max_result_bytes=2**20)
    text = "x" * 900_000
    outcomes = driven.run([job("coroutine", text, request_id=f"c{i}") for i in range(24)])
    assert {one.result for one in outcomes.values()} == {f'"{text}"'}


def test_waking_from_a_thread_ends_a_poll_that_has_nothing_to_tell(make_pool: MakePool) -> None:
    driven = make_pool()
    waker = threading.Timer(0.1, driven.pool.wake)
    begun_s = time.monotonic()
    waker.start()
    assert driven.pool.poll(LIMIT_S) == []
    assert time.monotonic() - begun_s < LIMIT_S / 2
    waker.join()


def test_waking_many_times_is_one_event_and_none_is_lost(make_pool: MakePool) -> None:
    driven = make_pool()
    for _ in range(3):
        driven.pool.wake()
        driven.pool.wake()
        assert driven.pool.poll(LIMIT_S) == []
    begun_s = time.monotonic()
    assert driven.pool.poll(0.1) == []
    assert time.monotonic() - begun_s >= 0.1


def test_waking_a_pool_that_has_ended_does_nothing(make_pool: MakePool) -> None:
    driven = make_pool()
    driven.kill()
    driven.pool.wake()


def test_a_poll_without_patience_returns_at_once(make_pool: MakePool) -> None:
    begun_s = time.monotonic()
    assert make_pool().pool.poll(0) == []
    assert time.monotonic() - begun_s < LIMIT_S / 2


class Parent:
    """A pool in a process group of its own; see `parent_process`."""

    def __init__(self, gate: str, *, slow_import: str = "") -> None:
        command = [sys.executable, "-m", "tests.consumer.pool.parent_process", gate]
        self.process = subprocess.Popen(
            [*command, slow_import], stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_process_group_leaves_running_children_alone(
    tmp_path: Path, number: signal.Signals
) -> None:
    gate = fifo(tmp_path)
    parent = Parent(gate)
    try:
        assert parent.line().startswith("ready ")
        assert parent.line() == "started"
        os.killpg(parent.process.pid, number)
        assert parent.line() == f"signal {number}"
        Path(gate).write_text("go")
        assert parent.line() == "SUCCEEDED"
    finally:
        parent.close()


def test_a_signal_to_the_process_group_leaves_starting_children_alone(tmp_path: Path) -> None:
    gate, slow_import = fifo(tmp_path), fifo(tmp_path)
    parent = Parent(gate, slow_import=slow_import)
    try:
        with Path(slow_import).open("w"):  # opens when the child has begun its import
            os.killpg(parent.process.pid, signal.SIGTERM)
            assert parent.line() == f"signal {signal.SIGTERM:d}"
        assert parent.line().startswith("ready ")
        Path(gate).write_text("go")
        assert [parent.line(), parent.line()] == ["started", "SUCCEEDED"]
    finally:
        parent.close()


def test_children_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    parent = Parent(fifo(tmp_path))
    try:
        pids = [int(pid) for pid in parent.line().removeprefix("ready ").split()]
        ends = [os.pidfd_open(pid) for pid in pids]
        assert parent.line() == "started"
        parent.process.kill()
        for end in ends:
            assert select.select([end], [], [], LIMIT_S)[0]
            os.close(end)
    finally:
        parent.close()


def test_a_parent_that_leaves_without_ending_its_pool_does_not_hang() -> None:
    code = (
        "import sys\n"
        "from tests.consumer.pool.driving import Driven, settings\n"
        "if __name__ == '__main__':\n"
        "    driven = Driven(settings())\n"
        "    driven.pids(1)\n"
        "    sys.exit(3)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], timeout=LIMIT_S, check=False)
    assert ended.returncode == 3


def test_the_parent_keeps_its_own_signal_mask(make_pool: MakePool) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    driven = make_pool()
    assert driven.told(ChildReady)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
