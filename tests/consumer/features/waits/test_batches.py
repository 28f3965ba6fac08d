"""`delivery="batch"` on real servers: read some, run all, wait for the slowest, commit."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

from feedback.status import State
from tests.consumer.foreign import identity
from tests.consumer.stage import Stage
from tests.eventually import eventually

MakeStage = Callable[..., Stage]


def make(make_stage: MakeStage, **worker: Any) -> Stage:
    handlers = ["tests.consumer.features.waits.wait_handlers"]
    return make_stage(handlers=("batched",), partitions=1, worker={"handlers": handlers, **worker})


def test_nothing_more_is_read_before_the_slowest_has_ended(make_stage: MakeStage) -> None:
    stage = make(make_stage, processes=1, slots_per_process=3)
    gate = stage.gate()
    slow = json.dumps({"gate": gate.path}).encode()
    for number in range(7):
        value = slow if number == 1 else b"{}"
        stage.produce(value, headers=identity(f"id-{number}"), handler="batched")
    stage.start()
    assert {stage.final(f"id-{number}").state for number in (0, 2)} == {State.SUCCEEDED}
    topic = stage.topics["batched"]
    assert stage.client.status("id-3").state is State.UNKNOWN
    assert stage.committed(topic, 0) == 0
    gate.open()
    assert {stage.final(f"id-{number}").state for number in range(7)} == {State.SUCCEEDED}
    eventually(lambda: stage.committed(topic, 0) == 7, timeout_s=30, what="all is committed")
    assert sorted(one["request_id"] for one in stage.runs()) == [f"id-{n}" for n in range(7)]


def test_what_had_ended_in_a_killed_workers_batch_is_answered_and_not_run_again(
    make_stage: MakeStage,
) -> None:
    stage = make(make_stage, processes=1, slots_per_process=3)
    gate = stage.gate()
    slow = json.dumps({"gate": gate.path}).encode()
    for number in range(3):
        value = slow if number == 1 else b"{}"
        stage.produce(value, headers=identity(f"id-{number}"), handler="batched")
    # Afterwards, so that one poll brings all of them: a batch waits for no more.
    first = stage.start()
    assert {stage.final(f"id-{number}").state for number in (0, 2)} == {State.SUCCEEDED}
    first.kill()
    gate.open()
    stage.start()
    assert stage.final("id-1", timeout_s=30).state is State.IN_DOUBT
    topic = stage.topics["batched"]
    eventually(lambda: stage.committed(topic, 0) == 3, what="all is committed")
    assert sorted(one["request_id"] for one in stage.runs()) == ["id-0", "id-1", "id-2"]


def test_a_worker_that_ends_in_order_commits_what_has_ended(make_stage: MakeStage) -> None:
    stage = make(make_stage, processes=1, slots_per_process=1, batch_limit=3)
    gate = stage.gate()
    slow = json.dumps({"gate": gate.path}).encode()
    for number in range(3):
        stage.produce(slow, headers=identity(f"id-{number}"), handler="batched")
    first = stage.start()
    eventually(lambda: stage.runs("id-0"), what="the first runs")
    first.send(signal.SIGTERM)
    first.told("requests.given_up")
    gate.open()
    assert first.wait() == 0
    assert stage.committed(stage.topics["batched"], 0) == 1
    stage.start()
    assert {stage.final(f"id-{number}").state for number in range(3)} == {State.SUCCEEDED}
    assert sorted(one["request_id"] for one in stage.runs()) == ["id-0", "id-1", "id-2"]


def test_a_failure_is_a_dead_letter_and_the_next_batch_is_read(make_stage: MakeStage) -> None:
    stage = make(make_stage, processes=1, slots_per_process=2)
    stage.start()
    stage.produce(b'{"do": "reject"}', headers=identity("bad"), handler="batched")
    stage.produce(b"{}", headers=[("onceward-attempt", b"zero")], handler="batched")
    stage.produce(b"{}", headers=identity("good"), handler="batched")
    assert stage.final("bad").code == "CARD_EXPIRED"
    assert stage.final("good").state is State.SUCCEEDED
    eventually(lambda: stage.committed(stage.topics["batched"], 0) == 3, what="committed")

    def has_letter() -> bool:
        row = stage.row("bad")
        return row is not None and row["dead_letter_at"] is not None

    eventually(has_letter, what="its dead letter")
