"""The pages of a real worker on real servers: what they say as its servers come and go."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from prometheus_client.parser import text_string_to_metric_families

from feedback.status import State
from onceward.servers.redis import Redis
from tests.consumer.conftest import MakeStage
from tests.consumer.ops.health.conftest import Watch
from tests.consumer.ops.health.watched_worker import WatchedWorker
from tests.eventually import eventually
from tests.stack import Servers
from tests.stack.restartable import Restartable, restartable

ONE_SLOT = {"processes": 1, "slots_per_process": 1}
STALL_S = 2.0


def metrics(worker: WatchedWorker) -> dict[str, float]:
    """Return the samples without labels, and those of buckets and counters added up."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(worker.get("metrics").text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


@contextmanager
def locked(journal_url: str) -> Iterator[None]:
    """Hold the journal's write lock for the length of the block."""
    connection = sqlite3.connect(
        journal_url.removeprefix("sqlite:///"), isolation_level=None, timeout=30
    )
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
    finally:
        connection.close()


def test_a_worker_at_work_says_so_and_names_the_request_that_it_has_for_longest(
    make_stage: MakeStage, watch: Watch
) -> None:
    stage = make_stage()
    worker = watch(stage, worker=ONE_SLOT)
    ready = worker.says("ready", 200)
    assert (ready["missing"], ready["kafka"]) == ({}, {"joined": True, "partitions": 2})
    assert ready["oldest_unfinished"] is None
    assert worker.says("live", 200)["stalled"] == {}

    gate = stage.gate()
    key = b"card \x00\xff" + b"9" * 500
    first = stage.produce(b'{"gate": "%s"}' % gate.path.encode(), key=key)
    eventually(lambda: stage.runs(first.coordinates_id), timeout_s=30)
    stage.produce(b"{}")
    eventually(lambda: worker.get("ready").json()["waiting"] == 1, timeout_s=30)
    oldest = worker.says("ready", 200)["oldest_unfinished"]
    assert oldest["request_id"] == first.coordinates_id
    assert (oldest["topic"], oldest["partition"]) == (first.topic, first.partition)
    assert (oldest["offset"], oldest["is_running"]) == (first.offset, True)
    # A key may be a card number.
    assert "key" not in oldest and "card" not in worker.get("ready").text
    seen = metrics(worker)
    assert (seen["onceward_slots_busy"], seen["onceward_buffer_requests"]) == (1, 1)
    assert 0 < seen["onceward_oldest_unfinished_seconds"] < 1000
    assert seen["onceward_server_up"] == 3

    gate.open()
    eventually(lambda: worker.get("ready").json()["oldest_unfinished"] is None, timeout_s=30)
    seen = metrics(worker)
    for what in ("commit", "journal_call", "redis_call"):
        assert seen[f"onceward_{what}_seconds_count"] > 0
    assert seen["onceward_deliveries_total"] == 2
    assert seen["onceward_stalled"] == 0
    eventually(lambda: metrics(worker).get("onceward_doubts_open") == 0, timeout_s=30)
    assert seen["process_resident_memory_bytes"] > 0
    assert worker.process.events("worker.stalled") == []


def test_redis_away_makes_a_worker_unready_until_it_is_back(
    make_stage: MakeStage, watch: Watch, servers: Servers
) -> None:
    with restartable(lambda: Redis(keeps_data=True)) as redis:
        own = Servers(kafka=servers.kafka, redis=redis.address, postgres=servers.postgres)
        stage = make_stage(servers=own)
        worker = watch(stage)
        worker.says("ready", 200)
        with redis.down():
            stage.produce(b"{}")
            assert worker.lacks("redis")["missing"].keys() == {"redis"}
            assert worker.get("live").status_code == 200
        worker.says("ready", 200)


def test_a_journal_that_is_away_is_no_stall_however_long(
    make_stage: MakeStage, watch: Watch
) -> None:
    stage = make_stage()
    worker = watch(stage, journal={"timeout_s": 0.5}, worker={"stall_after_s": STALL_S})
    worker.says("ready", 200)
    with locked(stage.journal_url):
        sent = stage.produce(b"{}")
        worker.lacks("journal")

        def has_been_away_for_long() -> bool:
            assert worker.get("live").status_code == 200
            left_s: float = worker.get("ready").json()["journal"]["lease_left_s"]
            return left_s < -2 * STALL_S

        eventually(has_been_away_for_long, timeout_s=60, interval_s=0.1)
    worker.says("ready", 200)
    assert stage.final(sent.coordinates_id).result is None
    assert worker.process.events("worker.stalled") == []


def test_a_worker_that_drains_lives_and_is_not_ready(make_stage: MakeStage, watch: Watch) -> None:
    stage = make_stage()
    worker = watch(stage)
    gate = stage.gate()
    sent = stage.produce(b'{"gate": "%s"}' % gate.path.encode())
    eventually(lambda: stage.runs(sent.coordinates_id), timeout_s=30)
    worker.process.send(signal.SIGTERM)
    assert worker.lacks("worker")["missing"] == {"worker": "it is ending"}
    assert worker.get("live").status_code == 200
    gate.open()
    assert worker.process.wait() == 0


def test_a_loop_that_stands_still_is_said_with_its_stack_and_so_is_its_end(
    make_stage: MakeStage, watch: Watch
) -> None:
    stage = make_stage()
    gate = stage.gate()
    worker = watch(stage, variables={"TEST_STALL_GATE": gate.path})
    worker.says("ready", 200)
    worker.process.send(signal.SIGUSR1)
    live = worker.says("live", 503)
    assert live["stalled"].keys() == {"loop"}
    event = worker.process.told("worker.stalled")
    assert "planted_stall.py" in event["stacks"][0]
    assert "block_the_loop" in event["stacks"][0]
    assert any(line.startswith("onceward-intake:") for line in event["stacks"])
    # A process that stood still as a whole counts anew from then on.
    eventually(lambda: metrics(worker)["onceward_stalled"] == 1, timeout_s=60)
    gate.open()
    worker.says("live", 200)
    assert worker.process.told("worker.goes_on")["was_stalled"] == "loop"
    sent = stage.produce(b"{}")
    stage.final(sent.coordinates_id)
    # Each of them is said once, and its end once.
    stalls = len(worker.process.events("worker.stalled"))
    eventually(lambda: len(worker.process.events("worker.goes_on")) >= stalls, timeout_s=30)
    assert len(worker.process.events("worker.goes_on")) == stalls


def test_a_child_that_starts_nothing_is_said_and_its_request_runs_in_another(
    make_stage: MakeStage, watch: Watch
) -> None:
    stage = make_stage()
    worker = watch(stage, worker={**ONE_SLOT, "handover_timeout_s": 15.0})
    worker.says("ready", 200)
    (stopped,) = worker.process.children()
    os.kill(stopped, signal.SIGSTOP)
    sent = stage.produce(b"{}")
    said = worker.lacks("pool")
    assert said["missing"]["pool"].startswith("no child has started what it was given")
    assert said["pool"]["late"] == 1
    # As long as a loop may take, which here is less than the child has.
    assert worker.says("live", 503)["stalled"].keys() == {"handover"}
    assert stage.final(sent.coordinates_id).state is State.SUCCEEDED
    assert len(stage.runs(sent.coordinates_id)) == 1
    assert [one["not_started"] for one in worker.process.events("child.died")] == [1]
    worker.says("live", 200)


def test_a_port_that_is_taken_ends_a_worker_at_once_with_what_to_do(
    make_stage: MakeStage, watch: Watch
) -> None:
    stage = make_stage()
    first = watch(stage)
    first.says("ready", 200)
    second = stage.launch_with(worker={"http_port": first.port})
    assert second.wait() == 3
    assert f"http_port: nobody can listen on 127.0.0.1:{first.port}" in second.tail
    assert first.get("ready").status_code == 200


def test_kafka_away_makes_a_worker_unready_until_it_is_back(
    make_stage: MakeStage, watch: Watch, servers: Servers, mortal_broker: Restartable
) -> None:
    stage = make_stage(servers=replace(servers, kafka=mortal_broker.address))
    worker = watch(stage)
    worker.says("ready", 200)
    with mortal_broker.stopped():
        assert worker.lacks("kafka")["missing"].keys() == {"kafka"}
        eventually(lambda: metrics(worker)["onceward_server_up"] == 2, timeout_s=30)
        assert worker.get("live").status_code == 200
    worker.says("ready", 200)
    assert worker.process.events("worker.stalled") == []
