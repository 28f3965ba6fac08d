"""The records that wait in Kafka, as a worker counts them beside its road."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from consumer.ops.health.lag import KEPT_S, LagReading, lag_by_topic, waiting
from feedback.kafka.values import ReadOn
from tests.consumer.conftest import MakeStage
from tests.consumer.ops.health.conftest import Watch
from tests.consumer.ops.health.watched_worker import WatchedWorker
from tests.consumer.running import command
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.feedback.kafka.engines.members import ENGINES
from tests.stack import Servers
from tests.stack.restartable import Restartable
from tests.transactions import Transactions

pytestmark = pytest.mark.waits

ONE_SLOT = {"processes": 1, "slots_per_process": 1, "buffer_limit": 1}
READING = LagReading({("pay", 0): 3, ("pay", 1): 4, ("book", 0): 0}, asked_s=100.0)
OWNED = [("pay", 0), ("pay", 1), ("book", 0)]


def test_a_lag_is_the_sum_over_the_partitions_that_are_read_now() -> None:
    assert lag_by_topic(READING, OWNED, now_s=101.0) == {"book": 0, "pay": 7}
    assert lag_by_topic(READING, [("pay", 1)], now_s=101.0) == {"pay": 4}


def test_what_is_not_known_is_no_zero() -> None:
    assert lag_by_topic(None, OWNED, now_s=101.0) == {}
    assert lag_by_topic(READING, OWNED, now_s=100.1 + KEPT_S) == {}
    assert lag_by_topic(READING, [*OWNED, ("pay", 2), ("new", 0)], now_s=101.0) == {"book": 0}


@pytest.mark.parametrize(
    ("read_on", "lag"),
    [
        pytest.param(None, 5, id="not known"),
        pytest.param(ReadOn(10, 14), 1, id="all committed, and some passed over"),
        pytest.param(ReadOn(None, 15), 0, id="nothing read by this worker"),
        pytest.param(ReadOn(10, 17), 0, id="read further meanwhile"),
        pytest.param(ReadOn(10, -1), 5, id="an unknown position"),
        pytest.param(ReadOn(12, 14), 5, id="not committed yet"),
        pytest.param(ReadOn(8, 14), 5, id="committed by another one since"),
    ],
)
def test_what_was_passed_over_behind_the_last_record_does_not_wait(
    read_on: ReadOn | None, lag: int
) -> None:
    place = ("pay", 0)
    known = {} if read_on is None else {place: read_on}
    assert waiting({place: 10}, {place: 15}, known) == {place: lag}


def shown(worker: WatchedWorker, stage: Stage) -> float | None:
    """Return the lag of the stage's topic in /metrics; None where it is not there."""
    topic = stage.topics["work"]
    line = f'onceward_consumer_lag_records{{topic="{topic}"}} '
    lines = worker.get("metrics").text.splitlines()
    return next((float(one.removeprefix(line)) for one in lines if one.startswith(line)), None)


def behind(stage: Stage, servers: Servers, partitions: int) -> int:
    """Return the lag by Kafka's own word."""
    topic = stage.topics["work"]
    places = [TopicPartition(topic, number) for number in range(partitions)]
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        ends = admin.list_partition_offsets(dict.fromkeys(places, -1))
    read = sum(stage.committed(topic, number) for number in range(partitions))
    return sum(int(one.offset) for one in ends.values()) - read


def test_a_full_buffer_hides_no_record_that_comes_after_it(
    make_stage: MakeStage, watch: Watch, servers: Servers
) -> None:
    stage = make_stage(partitions=2)
    gate = stage.gate()
    worker = watch(stage, worker=ONE_SLOT)
    worker.says("ready", 200)
    eventually(lambda: shown(worker, stage) == 0, timeout_s=60, what="a lag of none")
    stage.produce(b'{"gate": "%s"}' % gate.path.encode())
    eventually(lambda: stage.runs(), timeout_s=30)
    for _ in range(2):  # the second half comes when the partitions are paused for long
        for number in range(40):
            stage.produce(b"{}", partition=number % 2)
        eventually(
            lambda: shown(worker, stage) == behind(stage, servers, 2), timeout_s=60, what="the lag"
        )
    assert behind(stage, servers, 2) >= 70
    gate.open()
    eventually(lambda: shown(worker, stage) == 0, timeout_s=60, what="a lag of none")


def test_records_behind_a_transaction_that_hangs_wait(
    make_stage: MakeStage, watch: Watch, servers: Servers
) -> None:
    stage = make_stage()
    worker, topic = watch(stage), stage.topics["work"]
    worker.says("ready", 200)
    with Transactions(servers.kafka) as foreign:
        foreign.write(topic, b"{}")
        stage.produce(b"{}", partition=0)
        eventually(lambda: shown(worker, stage) == 2, timeout_s=60, what="a lag of two")
        foreign.commit()
    eventually(lambda: stage.committed(topic, 0) == 2, timeout_s=60, what="both read")
    # Behind the mark of the transaction's end, which is no record: nobody commits up to it.
    stage.produce(b"{}", partition=0)
    eventually(lambda: shown(worker, stage) == 0, timeout_s=60, what="a lag of none")


@pytest.mark.parametrize("client", ENGINES)
def test_the_mark_of_a_transactions_end_does_not_wait_when_all_is_read(
    make_stage: MakeStage, watch: Watch, servers: Servers, client: str
) -> None:
    stage = make_stage()
    topic = stage.topics["work"]
    worker = watch(stage, kafka={"client": client})
    worker.says("ready", 200)
    with Transactions(servers.kafka) as foreign:
        foreign.write(topic, b"{}")
        foreign.commit()
        foreign.write(topic, b"{}")
        foreign.abort()
    eventually(lambda: stage.committed(topic, 0) == 1, timeout_s=60, what="it is read")
    assert behind(stage, servers, 1) == 3
    eventually(lambda: shown(worker, stage) == 0, timeout_s=60, what="a lag of none")
    assert worker.process.stop() == 0
    # The next one begins before the marks, and reads no record.
    worker = watch(stage, kafka={"client": client})
    worker.says("ready", 200)
    eventually(lambda: shown(worker, stage) == 0, timeout_s=60, what="a lag of none")
    assert behind(stage, servers, 1) == 3


def test_without_kafka_there_is_no_lag_and_no_zero_either(
    make_stage: MakeStage, watch: Watch, servers: Servers, mortal_broker: Restartable
) -> None:
    stage = make_stage(servers=replace(servers, kafka=mortal_broker.address))
    worker = watch(stage)
    worker.says("ready", 200)
    eventually(lambda: shown(worker, stage) == 0, timeout_s=60, what="a lag of none")
    with mortal_broker.down():
        eventually(lambda: shown(worker, stage) is None, timeout_s=60, what="no lag")
    eventually(lambda: shown(worker, stage) == 0, timeout_s=90, what="a lag again")


def test_a_paused_topic_shows_what_waits_behind_the_pause(
    make_stage: MakeStage, watch: Watch
) -> None:
    stage = make_stage()
    worker = watch(stage)
    worker.says("ready", 200)
    config, topic = str(stage.config()), stage.topics["work"]
    paused = command("pause", topic, "--because", "the bank's migration", "--config", config)
    assert paused.returncode == 0, paused.stderr
    worker.process.told("topic.paused")
    for _ in range(5):
        stage.produce(b"{}")
    eventually(lambda: shown(worker, stage) == 5, timeout_s=60, what="a lag of five")

    def listed() -> Any:
        (line,) = command("workers", "--json", "--config", config).stdout.splitlines()
        return json.loads(line)

    def beats() -> Any:
        found = listed()
        return found if found["lag"] == {topic: 5} else None

    # It is the heartbeat's, which comes after the page's; the next one may be late.
    found = eventually(beats, timeout_s=60, what="a heartbeat with it")
    assert found["paused"] == {topic: "group"}
