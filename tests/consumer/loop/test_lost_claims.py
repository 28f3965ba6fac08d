"""A database that forgets a claim, on the road: its living worker ends the request, and whoever
comes later goes by what its client was told."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing

import pytest

from consumer.journal import Finish, Journal, Leases, Work
from feedback.status import State
from tests.consumer.conftest import MakeStage
from tests.consumer.foreign import identity
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.paused import paused_without_lock

WAITS = "tests.consumer.features.waits.wait_handlers"
COLLAPSE = "tests.consumer.features.collapse.collapsing_handlers"
ONE_AT_A_TIME = {"processes": 1, "slots_per_process": 1}


def test_a_run_that_is_refused_its_effect_since_its_claim_is_gone_runs_again(
    make_stage: MakeStage,
) -> None:
    # Far from the look that would write the claim again before the effect is asked for.
    stage = make_stage(handlers=("marked",), journal={"lease_s": 60})
    stage.start()
    gate = stage.gate()
    body = {"before": "gate", "gate": gate.path}
    handle = stage.client.send(body, topic=stage.topics["marked"])
    eventually(lambda: stage.runs(handle.request_id), timeout_s=30)
    stage.seen(handle.request_id, State.RUNNING)
    stage.execute(f"DELETE FROM onceward_request WHERE request_id = '{handle.request_id}'")
    gate.open()
    ended = handle.wait(30)
    assert (ended.state, ended.generation) == (State.SUCCEEDED, 2)
    assert len(stage.runs(handle.request_id, at="effect")) == 1
    assert [run["outcome"] for run in stage.history(handle.request_id)] == ["CLAIM_LOST"]


OTHER_PAYLOAD = ", payload_sha256 = 'b'"


@pytest.mark.parametrize(("does", "is_of"), [("reject", ""), ("answer", OTHER_PAYLOAD)])
def test_a_run_says_nothing_of_the_one_that_a_peer_has_of_the_same_generation_since(
    make_stage: MakeStage, does: str, is_of: str
) -> None:
    stage = make_stage(handlers=("work",), worker=ONE_AT_A_TIME)
    first = stage.start()
    gate = stage.gate()
    handle = stage.client.send({"gate": gate.path, "do": does}, topic=stage.topics["work"])
    stage.seen(handle.request_id, State.RUNNING)
    with (
        closing(Leases(stage.journal_url, group=stage.group, worker_id="peer")) as leases,
        closing(Journal(stage.journal_url, group=stage.group, worker_id="peer")) as peer,
    ):
        leases.register(600.0)
        # The claim was lost, and the peer has read the record again.
        anew = f"owner = 'peer', claimed_at = claimed_at + 1{is_of}"
        stage.execute(
            f"UPDATE onceward_request SET {anew} WHERE request_id = '{handle.request_id}'"
        )
        gate.open()
        assert first.told("finish.stale")["request_id"] == handle.request_id
        assert _stands(stage, handle.request_id) == ("CLAIMED", None)
        assert stage.client.status(handle.request_id).state is State.RUNNING
        end = Finish(handle.request_id, 1, "SUCCEEDED", None, None, "7", False)
        assert peer.apply(Work(finishes=[end])).finished[handle.request_id, 1].kind == "WRITTEN"
    if not is_of:
        assert stage.final(handle.request_id).result == 7


def _forget(stage: Stage, request_id: str) -> None:
    stage.execute(f"DELETE FROM onceward_request WHERE request_id = '{request_id}'")
    assert stage.row(request_id) is None


def _stands(stage: Stage, request_id: str) -> tuple[str, str | None] | None:
    """Return the state of a request's row, and in whose stead it ended."""
    row = stage.row(request_id)
    return None if row is None else (row["state"], row["by"])


@pytest.fixture
def batched(make_stage: MakeStage) -> Stage:
    """Return a stage of a handler whose batches are committed when they have ended."""
    return make_stage(handlers=("batched",), partitions=1, worker={"handlers": [WAITS]})


def test_what_a_batch_reads_again_is_not_run_where_its_client_was_told_of_a_run(
    batched: Stage,
) -> None:
    first = batched.start()
    batched.produce(b"{}", headers=identity("a"), handler="batched")
    assert batched.final("a").state is State.SUCCEEDED
    assert first.stop() == 0
    _forget(batched, "a")
    batched.produce(b"{}", headers=identity("a"), handler="batched")
    batched.start()
    eventually(lambda: batched.committed(batched.topics["batched"], 0) == 2, timeout_s=30)
    assert len(batched.runs("a")) == 1
    assert _stands(batched, "a") == ("SUCCEEDED", None)


def test_what_a_dead_worker_began_is_in_doubt_for_whoever_takes_its_wait_over(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(handlers=("parked",), worker={"handlers": [WAITS], **ONE_AT_A_TIME})
    gate = stage.gate()
    first = stage.start()
    body = json.dumps({"gate": str(gate.path)}).encode()
    stage.produce(body, headers=identity("a"), handler="parked")
    eventually(lambda: stage.runs("a"), what="it runs")
    stage.seen("a", State.RUNNING)
    first.kill()
    gate.open()
    _forget(stage, "a")
    stage.start()
    assert stage.final("a", timeout_s=40).state is State.IN_DOUBT
    assert len(stage.runs("a")) == 1


def test_what_has_run_does_not_end_in_the_stead_of_another_one(make_stage: MakeStage) -> None:
    worker = {"handlers": [COLLAPSE], **ONE_AT_A_TIME}
    stage = make_stage(handlers=("collapsed",), partitions=1, worker=worker)

    def post(request_id: str, body: dict[str, object]) -> None:
        value = json.dumps(body).encode()
        stage.produce(value, headers=identity(request_id), handler="collapsed", key=b"k")

    first = stage.start()
    post("a", {"number": 1})
    assert stage.final("a").state is State.SUCCEEDED
    assert first.stop() == 0
    _forget(stage, "a")
    stage.start()
    gate = stage.gate()
    post("first", {"number": 2, "applies": False, "asked": {"gate": gate.path}})
    eventually(lambda: stage.runs("first", at="asked"), what="it has the slot")
    post("head", {"number": 3})
    post("a", {"number": 1})
    eventually(lambda: stage.committed(stage.topics["collapsed"], 0) == 4, timeout_s=30)
    gate.open()
    assert stage.final("head").state is State.SUCCEEDED
    assert eventually(lambda: _stands(stage, "a"), what="its row") == ("SUCCEEDED", None)
    assert len(stage.runs("a", at="start")) == 1


def test_what_ran_outside_the_database_does_not_run_again_since_its_handler_writes_inside_now(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(handlers=("work",), worker={"processes": 2})
    gate = stage.gate()
    bodies = {"ended": b"{}", "running": json.dumps({"gate": gate.path}).encode()}
    worker = stage.start()
    for name, body in bodies.items():
        stage.produce(body, headers=identity(name))
    assert stage.final("ended").state is State.SUCCEEDED
    stage.seen("running", State.RUNNING)
    worker.kill()
    stage.execute("DELETE FROM onceward_request")
    topics = {"booking": stage.topics["work"]}
    stage.start_as({"TEST_TOPICS": json.dumps(topics)}).told("worker.started")
    for name, body in bodies.items():
        stage.produce(body, headers=identity(name, 2))
    assert stage.final("running").state is State.IN_DOUBT
    eventually(lambda: stage.row("ended") is not None, timeout_s=30)
    assert stage.final("ended").state is State.SUCCEEDED
    assert [len(stage.runs(name)) for name in bodies] == [1, 1]


def test_who_stood_still_past_the_deadline_begins_no_effect_although_nobody_knows_of_its_end(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(handlers=("marked",), worker=ONE_AT_A_TIME)
    gate, store = stage.gate(), stage.client.store
    first = stage.start()
    body = {"before": "gate", "gate": gate.path}
    request_id = stage.client.send(body, topic=stage.topics["marked"]).request_id
    stage.seen(request_id, State.RUNNING)
    with paused_without_lock(first.pid, stage.journal_url):
        stage.execute("UPDATE onceward_request SET deadline_at = 5")
        peer = stage.start()
        assert stage.final(request_id).state is State.EXPIRED
        peer.kill()
        gate.open()
        stage.execute(
            "UPDATE onceward_request SET state = 'CLAIMED', finished_at = NULL, code = NULL, "
            "message = NULL, published_at = NULL"
        )
        store.redis.delete(store.request_key(request_id))
    eventually(lambda: _stands(stage, request_id) != ("CLAIMED", None), timeout_s=30)
    assert stage.runs(request_id, at="effect") == []
    assert _stands(stage, request_id) == ("EXPIRED", None)


@pytest.mark.parametrize("its_child_dies", [False, True])
def test_who_stood_still_does_not_go_on_with_what_a_peer_has_run_since_and_the_database_lost(
    make_stage: MakeStage, its_child_dies: bool
) -> None:
    stage = make_stage(handlers=("marked",), worker=ONE_AT_A_TIME)
    gate = stage.gate()
    first = stage.start()
    body = {"before": "gate", "gate": gate.path}
    handle = stage.client.send(body, topic=stage.topics["marked"])
    stage.seen(handle.request_id, State.RUNNING)
    (child,) = first.children()
    with paused_without_lock(first.pid, stage.journal_url):
        if its_child_dies:
            os.kill(child, signal.SIGKILL)
        stage.start()
        eventually(lambda: len(stage.runs(handle.request_id)) == 2, timeout_s=30)
        gate.open()
        assert stage.final(handle.request_id).generation == 2
        stage.execute("DELETE FROM onceward_run")
        stage.execute(
            "UPDATE onceward_request SET generation = 1, state = 'CLAIMED', effect_at = NULL, "
            f"finished_at = NULL, published_at = NULL, owner = '{first.worker_id}'"
        )
    assert first.told("run.followed")["result"] == "STALE"
    assert stage.final(handle.request_id).generation == 2
    assert _stands(stage, handle.request_id) == ("SUCCEEDED", None)
    assert len(stage.runs(handle.request_id, at="effect")) == 1
