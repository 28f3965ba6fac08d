"""Requests for which no client waits, on real servers: none is lost, whoever dies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from consumer.features.waits.wait_record import Tombstone, decode_wait, wait_topic
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.status import State
from onceward.servers.redis import Redis
from tests.consumer.features.waits.given_back import WORKER, give_back
from tests.consumer.features.waits.topics import read_all, unfinished
from tests.consumer.foreign import identity
from tests.consumer.running import COMMAND, RunningWorker
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.stack import Servers
from tests.stack.restartable import restartable

HANDLERS = "tests.consumer.features.waits.wait_handlers"
MakeStage = Callable[..., Stage]

pytestmark = [pytest.mark.waits, pytest.mark.parametrize("journal", ["sqlite", "none"])]


@pytest.fixture
def make(make_stage: MakeStage, journal: str) -> Iterator[MakeStage]:
    """Return a factory of stages with a journal, or with none."""

    def made(handler: str, **facts: Any) -> Stage:
        worker = {"handlers": [HANDLERS], **facts.pop("worker", {})}
        given: dict[str, Any] = {"handlers": (handler,), "partitions": 2, "worker": worker}
        if journal == "none":
            given["journal"] = {**facts.pop("journal", {}), "url": ""}
        return make_stage(**given | facts)

    yield made


def nothing_unfinished(servers: Servers, stage: Stage, handler: str) -> None:
    eventually(
        lambda: unfinished(servers, stage, handler) == set(),
        interval_s=0.3,
        what="a tombstone for each",
    )


def test_each_request_has_a_wait_record_and_then_a_tombstone(
    make: MakeStage, servers: Servers
) -> None:
    stage = make("kept")
    worker = stage.start()
    ids = [f"id-{number}" for number in range(20)]
    for name in ids:
        stage.produce(
            b'{"answer": 1}', key=b"k-" + name.encode(), headers=identity(name), handler="kept"
        )
    stage.produce(b'{"do": "reject"}', headers=identity("bad"), handler="kept")
    assert {stage.final(name).state for name in ids} == {State.SUCCEEDED}
    assert stage.final("bad").state is State.FAILED
    nothing_unfinished(servers, stage, "kept")
    topic = wait_topic(stage.topics["kept"], stage.group)
    records = read_all(servers, topic)
    waits = [decode_wait(one, group=stage.group) for one in records if one.value is not None]
    assert {one.request_id for one in waits} == {*ids, "bad"}
    assert len(records) == 2 * len(waits) == 2 * 21
    assert {one.holder for one in waits if not isinstance(one, Tombstone)} == {worker.worker_id}
    letters = dead_letter_topic(stage.topics["kept"], stage.group)
    (letter,) = eventually(lambda: read_all(servers, letters), interval_s=0.3, what="its letter")
    assert dict(letter.headers)["DLQ_REASON"] == b"CARD_EXPIRED"


def test_what_a_killed_worker_had_runs_at_the_next_one_and_nothing_else_runs_twice(
    make: MakeStage, servers: Servers
) -> None:
    stage = make("kept", worker={"processes": 1, "slots_per_process": 2, "buffer_limit": 6})
    gate = stage.gate()
    first = stage.start()
    done = stage.produce(b"{}", headers=identity("done"), handler="kept")
    assert stage.final("done").state is State.SUCCEEDED
    body = json.dumps({"gate": str(gate.path)}).encode()
    ids = [f"id-{number}" for number in range(6)]
    for name in ids:
        stage.produce(body, headers=identity(name), handler="kept", partition=0)
    eventually(lambda: len(unfinished(servers, stage, "kept")) == 6, what="all are held")
    eventually(lambda: len(stage.runs()) == 3, what="two of them run")
    first.kill()
    gate.open()
    second = stage.start()
    assert {stage.final(name, timeout_s=40).state for name in ids} == {State.SUCCEEDED}
    nothing_unfinished(servers, stage, "kept")
    runs = [one["request_id"] for one in stage.runs()]
    assert {name: runs.count(name) for name in ("done", *ids)} == {
        name: 2 if runs.index(name) in (1, 2) else 1 for name in ("done", *ids)
    }
    assert done.partition in (0, 1)
    assert second.stop() == 0


def test_what_must_not_run_twice_is_a_dead_letter_in_doubt(
    make: MakeStage, servers: Servers, journal: str
) -> None:
    stage = make("parked", worker={"processes": 1, "buffer_limit": 2})
    gate = stage.gate()
    first = stage.start()
    body = json.dumps({"gate": str(gate.path)}).encode()
    stage.produce(body, headers=identity("begun"), handler="parked")
    eventually(lambda: stage.runs("begun"), what="it runs")
    first.kill()
    gate.open()
    stage.start()
    status = stage.final("begun", timeout_s=40)
    assert (status.state, status.code) == (State.IN_DOUBT, "WORKER_DIED")
    nothing_unfinished(servers, stage, "parked")
    letters = read_all(servers, dead_letter_topic(stage.topics["parked"], stage.group))
    assert {dict(one.headers)["DLQ_REASON"] for one in letters} == {b"WORKER_DIED"}
    assert {one.value for one in letters} == {body}
    assert len(stage.runs("begun")) == 1


def test_a_worker_that_ends_in_order_gives_back_what_it_has_not_begun(
    make: MakeStage, servers: Servers
) -> None:
    stage = make("parked", worker=WORKER)
    ids = give_back(stage, servers)
    stage.start()
    assert {stage.final(name, timeout_s=30).state for name in ids} == {State.SUCCEEDED}
    nothing_unfinished(servers, stage, "parked")
    assert sorted(one["request_id"] for one in stage.runs()) == ids


def test_a_rebalance_runs_nothing_again_while_the_first_owner_lives(
    make: MakeStage, servers: Servers
) -> None:
    # The first lives, also where it stands still while the others start.
    stage = make(
        "kept",
        worker={"processes": 1, "slots_per_process": 4},
        redis={"heartbeat_ttl_s": 60},
        journal={"lease_s": 60, "wait_s": 120},
    )
    gate = stage.gate()
    stage.start()
    body = json.dumps({"gate": str(gate.path)}).encode()
    ids = [f"id-{number}" for number in range(4)]
    for name in ids:
        stage.produce(body, headers=identity(name), handler="kept")
    eventually(lambda: len(stage.runs()) == 4, what="all run")
    second = stage.start()
    eventually(lambda: len(stage.members()) == 2, what="the second is a member")
    third = stage.start()
    eventually(lambda: len(stage.members()) == 3, what="the third is a member")
    assert (second.stop(), third.stop()) == (0, 0)
    gate.open()
    assert {stage.final(name).state for name in ids} == {State.SUCCEEDED}
    nothing_unfinished(servers, stage, "kept")
    assert sorted(one["request_id"] for one in stage.runs()) == ids


def test_while_redis_is_away_nobody_is_taken_for_dead_and_the_keeper_goes_on(
    make: MakeStage, servers: Servers, tmp_path: Path
) -> None:
    with restartable(Redis) as redis:
        stage = make(
            "kept",
            servers=Servers(kafka=servers.kafka, redis=redis.address),
            worker={"processes": 1, "slots_per_process": 2},
            # The first is not taken for dead before it is, though it may stand still.
            redis={"heartbeat_ttl_s": 8},
        )
        gate = stage.gate()
        first = stage.start()
        body = json.dumps({"gate": str(gate.path)}).encode()
        stage.produce(body, headers=identity("begun"), handler="kept")
        eventually(lambda: stage.runs("begun"), what="it runs")
        second = RunningWorker(
            stage.config(),
            log=tmp_path / "second.log",
            settings=stage.variables(),
            argv=(*COMMAND, "run", "--log-level", "debug"),
        )
        stage.workers.append(second)
        second.told("worker.started")
        eventually(lambda: len(stage.members()) == 2, what="the second is a member")
        with redis.down():
            first.kill()
            # It keeps the wait topic and looks for who lives, again and again.
            eventually(lambda: len(second.events("waits.left")) >= 3, timeout_s=40, what="looks")
            assert second.events("wait.taken_over") == []
        gate.open()
        assert stage.final("begun", timeout_s=40).state is State.SUCCEEDED
        assert len(stage.runs("begun")) == 2
        assert second.stop() == 0
