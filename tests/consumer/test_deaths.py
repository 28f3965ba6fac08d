"""What becomes of a request whose child dies or hangs, by its effect and its policy."""

import os
import signal
from typing import Any

import pytest

from feedback.status import State
from producer_client import Handle
from tests.consumer.conftest import MakeStage
from tests.consumer.stage import TWO_CHILDREN, Stage
from tests.eventually import eventually

pytestmark = pytest.mark.waits

BOOKING = "CREATE TABLE booking (request_id TEXT)"
LIMIT_S = 40.0


def send(stage: Stage, handler: str, **body: Any) -> Handle:
    return stage.client.send(body, topic=stage.topics[handler])


def outcomes(stage: Stage, request_id: str) -> list[tuple[int, str]]:
    """Return the generations that the history keeps, and how each ended."""
    return [(run["generation"], run["outcome"]) for run in stage.history(request_id)]


@pytest.mark.parametrize("way", ["dies", "crashes"])
def test_a_transactional_run_that_died_left_nothing_and_runs_again(
    make_stage: MakeStage, way: str
) -> None:
    stage = make_stage(handlers=("booking",))
    stage.execute(BOOKING)
    stage.start()
    handle = send(stage, "booking", **{way: 1}, answer=7)
    found = handle.wait(LIMIT_S)
    assert (found.state, found.result, found.generation) == (State.SUCCEEDED, 7, 2)
    assert stage.execute("SELECT request_id FROM booking") == [(handle.request_id,)]
    assert outcomes(stage, handle.request_id) == [(1, "CHILD_DIED")]


def test_a_marked_run_that_died_before_its_effect_runs_again(make_stage: MakeStage) -> None:
    stage = make_stage(handlers=("marked",))
    stage.start()
    handle = send(stage, "marked", before="survive", dies=1, answer=7)
    found = handle.wait(LIMIT_S)
    assert (found.state, found.result, found.generation) == (State.SUCCEEDED, 7, 2)
    assert len(stage.runs(handle.request_id, at="effect")) == 1


def test_a_marked_run_that_died_in_its_effect_is_in_doubt(make_stage: MakeStage) -> None:
    stage = make_stage(handlers=("marked",))
    stage.start()
    handle = send(stage, "marked", dies=1)
    found = handle.wait(LIMIT_S)
    assert (found.state, found.code, found.generation) == (State.IN_DOUBT, "CHILD_DIED", 1)
    assert len(stage.runs(handle.request_id)) == 1


@pytest.mark.parametrize("handler", ["booking", "marked"])
def test_a_request_that_kills_three_children_is_a_crash_loop(
    make_stage: MakeStage, handler: str
) -> None:
    stage = make_stage(handlers=(handler, "work"))
    stage.execute(BOOKING)
    worker = stage.start()
    poison = send(stage, handler, before="survive", dies=99)
    found = poison.wait(LIMIT_S)
    assert (found.state, found.code, found.resend) == (State.FAILED, "CRASH_LOOP", False)
    assert len(stage.runs(poison.request_id)) == 3
    assert send(stage, "work", answer=1).wait(LIMIT_S).state is State.SUCCEEDED
    assert worker.stop() == 0


def test_the_same_key_is_used_again_until_the_run_ends(make_stage: MakeStage) -> None:
    stage = make_stage(handlers=("keyed",), worker=TWO_CHILDREN)
    stage.start()
    dying = send(stage, "keyed", dies=2)
    failing = send(stage, "keyed", raises=1)
    found = dying.wait(LIMIT_S)
    assert (found.state, found.generation) == (State.SUCCEEDED, 3)
    assert outcomes(stage, dying.request_id) == [(1, "CHILD_DIED"), (2, "CHILD_DIED")]
    again = failing.wait(LIMIT_S)
    assert (again.state, again.generation) == (State.SUCCEEDED, 2)
    assert outcomes(stage, failing.request_id) == [(1, "HANDLER_ERROR")]
    assert isinstance(again.result, dict) and again.result["key"].startswith("ow-")


def test_a_crash_loop_whose_effect_may_have_happened_is_in_doubt_and_not_failed(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(handlers=("keyed",))
    stage.start()
    found = send(stage, "keyed", dies=99).wait(LIMIT_S)
    assert (found.state, found.code) == (State.IN_DOUBT, "CRASH_LOOP")
    raising = send(stage, "keyed", raises=99).wait(LIMIT_S)
    assert (raising.state, raising.code) == (State.IN_DOUBT, "HANDLER_ERROR")
    assert "the bank is on fire" in (raising.message or "")


@pytest.mark.parametrize(
    ("says", "state", "code", "generation"),
    [
        ("happened", State.SUCCEEDED, None, 1),
        ("voided", State.SUCCEEDED, None, 2),
        ("unknown", State.IN_DOUBT, "QUERY_UNKNOWN", 1),
        ("raise", State.IN_DOUBT, "QUERY_UNKNOWN", 1),
    ],
)
def test_the_counterparty_is_asked_and_its_answer_decides(
    make_stage: MakeStage, says: str, state: State, code: str | None, generation: int
) -> None:
    stage = make_stage(handlers=("asked",))
    stage.start()
    handle = send(stage, "asked", dies=1, says=says)
    found = handle.wait(LIMIT_S)
    assert (found.state, found.code or None, found.generation) == (state, code, generation)
    assert len(stage.runs(handle.request_id, at="query")) == 1
    if says == "happened":
        assert found.result == {"paid": True}
    if says == "voided":
        assert found.result == {"generation": 2, "voids": 1}
        assert found.voids == 1
        assert outcomes(stage, handle.request_id) == [(1, "VOIDED")]


def test_a_run_that_hangs_is_killed_and_in_doubt_by_its_time_limit(make_stage: MakeStage) -> None:
    stage = make_stage(handlers=("limited", "work"))
    stage.start()
    hanging = send(stage, "limited", hangs=1)
    found = hanging.wait(LIMIT_S)
    assert (found.state, found.code) == (State.IN_DOUBT, "TIMEOUT")
    assert send(stage, "work", answer=1).wait(LIMIT_S).state is State.SUCCEEDED


def test_a_transactional_run_that_hangs_runs_again(make_stage: MakeStage) -> None:
    stage = make_stage(handlers=("limited-booking",))
    stage.execute(BOOKING)
    stage.start()
    handle = send(stage, "limited-booking", hangs=1, answer=7)
    assert (handle.wait(LIMIT_S).state, handle.status().generation) == (State.SUCCEEDED, 2)
    assert outcomes(stage, handle.request_id) == [(1, "TIMEOUT")]
    assert stage.execute("SELECT request_id FROM booking") == [(handle.request_id,)]


def test_a_peer_goes_on_with_what_a_killed_worker_held(
    make_stage: MakeStage, postgres_url: str
) -> None:
    # On SQLite a booking that hangs would hold the one write lock.
    handlers = ("booking", "marked", "keyed", "asked", "work")
    stage = make_stage(handlers=handlers, worker={"processes": 5}, journal_url=postgres_url)
    stage.execute(BOOKING)
    first = stage.start()
    gate = stage.gate()
    # Each hangs in its first generation, so that the worker holds all five when it is killed.
    held = {
        "booking": send(stage, "booking", hangs=1),
        "marked": send(stage, "marked", before="survive", hangs=1),
        "keyed": send(stage, "keyed", hangs=1),
        "asked": send(stage, "asked", hangs=1, says="happened"),
        "work": send(stage, "work", gate=gate.path),
    }
    eventually(lambda: len(stage.runs()) == 5, timeout_s=LIMIT_S)
    second = stage.start()
    os.kill(first.pid, signal.SIGKILL)
    found = {name: stage.final(handle.request_id, timeout_s=LIMIT_S) for name, handle in
             held.items()}  # fmt: skip
    assert {name: (one.state, one.generation) for name, one in found.items()} == {
        "booking": (State.SUCCEEDED, 2),
        "marked": (State.SUCCEEDED, 2),
        "keyed": (State.SUCCEEDED, 2),
        "asked": (State.SUCCEEDED, 1),
        "work": (State.IN_DOUBT, 1),
    }
    assert {one.worker for name, one in found.items() if name != "work"} == {second.worker_id}
    assert second.stop() == 0


def test_what_no_client_kept_a_payload_of_is_read_from_kafka_again(make_stage: MakeStage) -> None:
    stage = make_stage(handlers=("keyed",))
    first = stage.start()
    sent = stage.produce(b'{"hangs": 1}', key=b"k", handler="keyed")
    eventually(lambda: stage.runs(sent.coordinates_id), timeout_s=LIMIT_S)
    first.kill()
    stage.start()
    assert stage.final(sent.coordinates_id, timeout_s=LIMIT_S).state is State.SUCCEEDED


def test_the_deadline_of_a_drain_leaves_what_left_nothing_to_a_peer(
    make_stage: MakeStage, postgres_url: str
) -> None:
    stage = make_stage(
        handlers=("booking", "marked"),
        worker={"drain_timeout_s": 0.5},
        journal_url=postgres_url,
    )
    stage.execute(BOOKING)
    first = stage.start()
    safe = send(stage, "booking", hangs=1, answer=7)
    doubtful = send(stage, "marked", hangs=1)
    eventually(lambda: len(stage.runs()) == 2 and stage.runs(at="effect"), timeout_s=LIMIT_S)
    assert first.stop() == 5
    assert stage.client.status(safe.request_id).state is State.RETRYING
    assert stage.client.status(doubtful.request_id).state is State.IN_DOUBT
    stage.start()
    assert stage.final(safe.request_id, timeout_s=LIMIT_S).result == 7
