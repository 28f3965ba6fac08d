"""How a worker ends, in order or not, and what becomes of every request it held (section 5)."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from feedback.settings.settings import load
from feedback.status import State
from producer_client import Handle
from tests.consumer.conftest import MakeStage
from tests.consumer.gate import Gate
from tests.consumer.stage import HANDLERS, TWO_CHILDREN, Stage
from tests.eventually import eventually
from tests.rounds import fastest_s
from tests.standstill import standing_still

pytestmark = pytest.mark.waits

ONE_SLOT = {"processes": 1, "slots_per_process": 1}
# docs: How it works: a dead child is told of within this time.
CHILD_DEATH_TOLD_S = 0.5
# So long that a sweep, which comes within a third of it, may be late.
LEASE_S = 6.0


def send_gated(stage: Stage, gate: Gate) -> Handle:
    return stage.client.send({"gate": gate.path}, topic=stage.topics["work"])


def is_in(state: State, *handles: Handle) -> Callable[[], bool]:
    return lambda: all(handle.status().state is state for handle in handles)


def test_sigterm_finishes_what_runs_and_hands_the_rest_to_the_next_owner(
    make_stage: MakeStage,
) -> None:
    # Longer than another worker takes to start: the gate ends the drain, not this.
    stage = make_stage(
        worker={**ONE_SLOT, "buffer_limit": 2, "drain_timeout_s": 300.0},
        # Neither is taken for dead that only stands still for a moment.
        journal={"lease_s": 30, "wait_s": 60},
        redis={"heartbeat_ttl_s": 20},
    )
    first = stage.start()
    gate = stage.gate()
    running = send_gated(stage, gate)
    eventually(lambda: stage.runs(running.request_id), timeout_s=30)
    waiting = [stage.client.send({"answer": n}, topic=stage.topics["work"]) for n in range(2)]
    eventually(is_in(State.ACCEPTED, *waiting))
    unread = [stage.client.send({"answer": n}, topic=stage.topics["work"]) for n in range(4)]

    first.send(signal.SIGTERM)
    eventually(is_in(State.LOST, *waiting), timeout_s=30)
    assert first.is_alive
    assert {handle.status().state for handle in unread} == {State.PENDING}
    second = stage.start()
    assert [handle.wait(30).attempt for handle in waiting] == [2, 2]
    assert [handle.wait(30).attempt for handle in unread] == [1, 1, 1, 1]
    assert first.is_alive

    gate.open()
    assert first.wait() == 0
    assert (running.wait(60).state, running.status().worker) == (State.SUCCEEDED, first.worker_id)
    everything = [running, *waiting, *unread]
    assert {handle.status().state for handle in everything} == {State.SUCCEEDED}
    ran = sorted(run["request_id"] for run in stage.runs())
    assert ran == sorted(handle.request_id for handle in everything)
    assert second.stop() == 0


def test_a_refused_record_that_waits_at_the_end_is_written_before_the_worker_goes(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(worker=ONE_SLOT, partitions=1)
    worker = stage.start()
    gate = stage.gate()
    running = send_gated(stage, gate)
    eventually(lambda: stage.runs(running.request_id), timeout_s=30)
    sent = stage.produce(b"{}", headers=[("onceward-attempt", b"0")])
    eventually(lambda: stage.committed(sent.topic, 0) > sent.offset)
    assert stage.row(sent.coordinates_id) is None
    worker.send(signal.SIGTERM)
    assert stage.final(sent.coordinates_id).code == "INVALID_MESSAGE"
    gate.open()
    assert worker.wait() == 0


def test_a_drain_leaves_the_lifespans_of_its_children(
    make_stage: MakeStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIFESPAN_NOTES", str(tmp_path / "notes"))
    noted = "tests.consumer.pool.noted_lifespans"
    stage = make_stage(worker={**ONE_SLOT, "handlers": [HANDLERS, noted]})
    worker = stage.start()
    stage.client.send({"answer": 1}, topic=stage.topics["work"]).wait(30)
    assert worker.stop() == 0
    left = [one for one in (tmp_path / "notes").read_text().splitlines() if " left" in one]
    assert [one.partition(" ")[0] for one in left] == ["session", "engine"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_whole_process_group_lets_the_children_finish(
    make_stage: MakeStage, number: signal.Signals
) -> None:
    stage = make_stage(worker=TWO_CHILDREN)
    worker = stage.start()
    gate = stage.gate()
    handles = [send_gated(stage, gate) for _ in range(2)]
    eventually(is_in(State.RUNNING, *handles), timeout_s=30)
    worker.send_to_group(number)
    worker.told("worker.draining")
    assert len(worker.children()) == 2
    gate.open()
    assert worker.wait() == 0
    assert is_in(State.SUCCEEDED, *handles)()
    assert worker.events("child.died") == []


def test_the_drain_deadline_cuts_what_runs_and_says_that_it_is_in_doubt(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(worker={"drain_timeout_s": 1.0})
    worker = stage.start()
    handle = send_gated(stage, stage.gate())
    eventually(lambda: stage.runs(handle.request_id), timeout_s=30)
    assert worker.stop() == 5
    status = handle.status()
    assert (status.state, status.code) == (State.IN_DOUBT, "CHILD_DIED")
    row = stage.row(handle.request_id)
    assert row is not None
    assert (row["state"], row["finished_at"] is not None) == ("IN_DOUBT", True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_cuts_at_once(make_stage: MakeStage, number: signal.Signals) -> None:
    stage = make_stage(worker={"drain_timeout_s": 60.0})
    worker = stage.start()
    handle = send_gated(stage, stage.gate())
    eventually(lambda: stage.runs(handle.request_id), timeout_s=30)
    family = worker.family()
    worker.send(number)
    worker.told("worker.draining")
    worker.send(number)
    assert worker.wait() == 5
    assert handle.status().state is State.IN_DOUBT
    assert psutil.wait_procs(family, timeout=60)[1] == []


def test_a_killed_child_is_told_of_at_once_and_the_other_goes_on(make_stage: MakeStage) -> None:
    stage = make_stage(worker=TWO_CHILDREN)
    worker = stage.start()
    gate = stage.gate()
    survivor = send_gated(stage, gate)
    eventually(lambda: len(stage.runs()) == 1, timeout_s=30)
    victims: list[str] = []

    def told_s() -> float:
        victim = send_gated(stage, gate)
        victims.append(victim.request_id)
        (run,) = eventually(lambda: stage.runs(victim.request_id), timeout_s=30)
        assert run["pid"] != stage.runs(survivor.request_id)[0]["pid"]
        killed_s = time.monotonic()
        psutil.Process(run["pid"]).kill()
        status = victim.wait(60)
        told_s = time.monotonic() - killed_s
        assert (status.state, status.code) == (State.IN_DOUBT, "CHILD_DIED")
        assert "SIGKILL" in str(status.message)
        return told_s

    assert fastest_s(told_s, enough_s=CHILD_DEATH_TOLD_S) < CHILD_DEATH_TOLD_S

    after = [stage.client.send({}, topic=stage.topics["work"]) for _ in range(4)]
    gate.open()
    assert [handle.wait(60).state for handle in (survivor, *after)] == [State.SUCCEEDED] * 5
    assert len(stage.runs()) == 5 + len(victims)
    assert len(worker.children()) == 2
    assert worker.stop() == 0


def test_whatever_a_killed_worker_held_is_told_by_another(make_stage: MakeStage) -> None:
    lasting = {"journal": {"lease_s": LEASE_S}, "redis": {"heartbeat_ttl_s": LEASE_S}}
    stage = make_stage(worker={"buffer_limit": 2}, **lasting)
    first = stage.start()
    gate = stage.gate()
    running = [send_gated(stage, gate) for _ in range(2)]
    eventually(lambda: len(stage.runs()) == 2, timeout_s=30)
    waiting = [stage.client.send({"answer": n}, topic=stage.topics["work"]) for n in range(2)]
    eventually(is_in(State.ACCEPTED, *waiting))
    unread = [stage.client.send({"answer": n}, topic=stage.topics["work"]) for n in range(4)]
    second = stage.start()
    eventually(lambda: len(stage.members()) == 2, timeout_s=30)
    family = first.family()

    first.kill()
    ((lease_until,),) = stage.execute(
        f"SELECT lease_until FROM onceward_worker WHERE worker_id = '{first.worker_id}'"
    )
    with standing_still() as stood:
        doubted = [handle.wait(60) for handle in running]
    assert {(one.state, one.code) for one in doubted} == {(State.IN_DOUBT, "WORKER_DIED")}
    for handle in running:
        row = stage.row(handle.request_id)
        assert row is not None
        # Not before its lease is over, and within another one; both by the database's clock.
        assert 0 <= row["finished_at"] - lease_until < 1000 * (LEASE_S + stood.total_s)
    killed_s = time.monotonic()
    ended = [handle.wait(60) for handle in (*waiting, *unread)]
    assert {one.state for one in ended} == {State.SUCCEEDED}
    # Sooner than time alone resends: a lost one may land where the dead member owns the partition.
    assert time.monotonic() - killed_s < load(stage.config()).client.resend_after_s
    assert psutil.wait_procs(family, timeout=60)[1] == []

    everything = [*running, *waiting, *unread]
    ran = sorted(run["request_id"] for run in stage.runs())
    assert ran == sorted(handle.request_id for handle in everything)
    assert {handle.status().worker for handle in (*waiting, *unread)} == {second.worker_id}


def test_a_fault_of_a_thread_ends_the_worker_instead_of_stalling_it(make_stage: MakeStage) -> None:
    stage = make_stage()
    worker = stage.start()
    handle = stage.client.send({}, topic=stage.topics["work"])
    assert handle.wait(30).state is State.SUCCEEDED
    stage.execute("DROP TABLE onceward_worker")
    assert worker.wait() == 2
    assert worker.stderr.splitlines()[-2].startswith("error: the journal has no tables")
