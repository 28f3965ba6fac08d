"""A real worker under a test that plays systemd: what it is told, and what it does then."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.consumer.conftest import MakeStage
from tests.consumer.ops.health.conftest import Watch
from tests.consumer.ops.health.watched_worker import WatchedWorker
from tests.consumer.running import RunningWorker
from tests.eventually import eventually
from tests.kit.program import ROOT
from tests.paused import paused
from tests.rounds import holds_in_one_round
from tests.service_manager import NotifySocket

pytestmark = pytest.mark.waits

WATCHDOG_S = 1.0
GONE_LIMIT_S = 60.0


@pytest.fixture
def manager() -> Iterator[NotifySocket]:
    """Yield a manager that wants to hear of a worker every second."""
    with NotifySocket(watchdog_s=WATCHDOG_S) as made:
        yield made


def all_gone(family: list[psutil.Process]) -> bool:
    return psutil.wait_procs(family, timeout=GONE_LIMIT_S)[1] == []


def kill_what_is_left(worker: RunningWorker) -> None:
    """Do what KillMode=mixed does after TimeoutStopSec: SIGKILL for the whole group."""
    worker.send_to_group(signal.SIGKILL)


def test_a_worker_tells_when_it_is_ready_that_it_lives_and_that_it_ends(
    make_stage: MakeStage, watch: Watch, manager: NotifySocket
) -> None:
    stage = make_stage()
    worker = watch(stage, variables=manager.variables)
    manager.wait_for("READY=1")
    assert worker.says("ready", 200)["pool"]["ready"] >= 1
    manager.wait_for("WATCHDOG=1", times=5)
    gate = stage.gate()
    sent = stage.produce(b'{"gate": "%s"}' % gate.path.encode())
    eventually(lambda: stage.runs(sent.coordinates_id), timeout_s=30)
    manager.wait_for("STATUS=1 running or claimed, 0 waiting")
    # A handler that takes long is no stall, and a drain that waits for it is none.
    manager.wait_for("WATCHDOG=1", times=5)
    worker.process.send(signal.SIGTERM)
    manager.wait_for("STOPPING=1")
    manager.wait_for("WATCHDOG=1", times=2)
    gate.open()
    assert worker.process.wait() == 0
    manager.empty()
    assert (manager.heard.count("READY=1"), manager.heard.count("STOPPING=1")) == (1, 1)


def test_children_do_not_know_the_manager(
    make_stage: MakeStage, watch: Watch, manager: NotifySocket
) -> None:
    worker = watch(make_stage(), variables=manager.variables)
    manager.wait_for("READY=1")
    below = worker.process.family()[1:]
    assert below
    for child in below:
        variables = Path(f"/proc/{child.pid}/environ").read_bytes()
        assert b"PATH=" in variables
        assert b"NOTIFY_SOCKET" not in variables
        assert b"WATCHDOG" not in variables


def test_a_loop_that_stands_still_loses_the_watchdog_and_its_abort_leaves_the_stacks(
    make_stage: MakeStage, watch: Watch, manager: NotifySocket
) -> None:
    stage = make_stage()
    variables = {
        **manager.variables,
        "TEST_STALL_GATE": stage.gate().path,
        "PYTHONFAULTHANDLER": "1",  # as in the unit
    }
    worker = watch(stage, variables=variables)
    manager.wait_for("READY=1")
    worker.says("ready", 200)
    worker.process.send(signal.SIGUSR1)
    worker.says("live", 503)

    def silence() -> None:
        manager.wait_for(_stalled_status(worker))
        manager.empty()
        assert manager.hear(2 * WATCHDOG_S) == []

    # A process that stood still as a whole counts anew, and says so: it is stalled again then.
    holds_in_one_round(silence)
    family = worker.process.family()
    worker.process.send(signal.SIGABRT)
    assert worker.process.wait() == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in worker.process.stderr
    assert "in block_the_loop" in worker.process.stderr
    assert all_gone(family)


def _stalled_status(worker: WatchedWorker) -> str:
    ready = worker.get("ready").json()
    return f"STATUS=stalled (loop): {ready['held']} running or claimed, {ready['waiting']} waiting"


def test_what_does_not_end_in_time_is_killed_to_the_last_process(
    make_stage: MakeStage, watch: Watch, manager: NotifySocket
) -> None:
    stage = make_stage()
    worker = watch(stage, variables=manager.variables, worker={"drain_timeout_s": 600.0})
    manager.wait_for("READY=1")
    sent = stage.produce(b'{"gate": "%s"}' % stage.gate().path.encode())
    eventually(lambda: stage.runs(sent.coordinates_id), timeout_s=30)
    family = worker.process.family()
    worker.process.send(signal.SIGTERM)
    manager.wait_for("STOPPING=1")
    assert len(worker.process.children()) == 1  # SIGTERM was for the main process alone
    kill_what_is_left(worker.process)
    assert all_gone(family)


def test_a_worker_without_its_topics_never_says_that_it_is_ready(
    make_stage: MakeStage, watch: Watch, manager: NotifySocket
) -> None:
    absent = {"TEST_TOPICS": json.dumps({"work": "no-such-topic"})}
    worker = watch(make_stage(), variables={**manager.variables, **absent})
    assert worker.process.wait() == 3
    manager.empty()
    assert "READY=1" not in manager.heard


STOPPED_SCRIPT = """
import threading
from consumer.ops.health.progress import LOOP, LoopProgress
from consumer.ops.health.watch import HealthWatch
from feedback import logs
from feedback.systemd import unit
from tests.consumer.ops.health.samples import vitals

logs.configure()
progress, wake = LoopProgress(), threading.Event()
watch = HealthWatch(progress=progress, limits={LOOP: 2.0}, look=vitals, unit=unit())
watch.start()
while not wake.wait(0.01):
    progress.tick(LOOP)
"""


def test_a_process_that_was_stopped_and_woken_has_not_stalled(tmp_path: Path) -> None:
    with NotifySocket(watchdog_s=1.0) as manager, (tmp_path / "log").open("w+b") as log:
        process = subprocess.Popen(
            (sys.executable, "-c", STOPPED_SCRIPT),
            cwd=ROOT,
            env=os.environ | manager.variables,
            stderr=log,
        )
        try:
            manager.wait_for("WATCHDOG=1", times=2)
            with paused(process.pid):
                manager.empty()
                assert manager.hear(4.0) == []  # twice the limit
            manager.wait_for("WATCHDOG=1", times=4)
        finally:
            process.kill()
            process.wait()
    assert "worker.stalled" not in (tmp_path / "log").read_text()
