"""What is in the way of outcomes: a missing topic, a small one, Kafka itself, a dead worker."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from feedback.status import State
from tests.consumer.features.outcomes.conftest import MakeOutlet
from tests.consumer.features.outcomes.outlet import Outlet
from tests.eventually import eventually
from tests.left_open import left_open
from tests.stack import Servers
from tests.stack.restartable import Restartable

pytestmark = pytest.mark.waits

EXPECTED = {"create_topics": False}
LIMIT_S = 60.0


def succeed(outlet: Outlet, count: int = 1, answer: object = 1) -> list[str]:
    """Let requests succeed, and return their ids when the journal says so."""
    value = json.dumps({"answer": answer}).encode()
    sent = [outlet.stage.produce(value, handler="telling").coordinates_id for _ in range(count)]
    for one in sent:
        assert outlet.stage.final(one).state is State.SUCCEEDED
    return sent


def waiting(outlet: Outlet, request_ids: list[str]) -> list[str]:
    return [one for one in request_ids if not outlet.is_written(one)]


def counted(outlet: Outlet) -> Counter[str]:
    return Counter(one.value["request_id"] for one in outlet.told())


def test_a_missing_topic_is_told_once_and_nothing_is_lost(make_outlet: MakeOutlet) -> None:
    outlet = make_outlet("telling", "work", worker=EXPECTED)
    worker = outlet.stage.start()
    assert outlet.name() in worker.told("outcomes.topic_away")["reason"]
    sent = succeed(outlet, 3)
    alarm = worker.told("outcomes.hindered")
    assert alarm["topic"] == outlet.stage.topics["telling"]
    assert f"{outlet.name()} does not exist: create it" in alarm["reason"]
    sent += succeed(outlet, 3)
    other = outlet.stage.client.send({}, topic=outlet.stage.topics["work"])
    assert other.wait(60).state is State.SUCCEEDED
    assert waiting(outlet, sent) == sent
    outlet.make()
    outlet.until({(one, 1) for one in sent})
    worker.told("outcomes.free")
    assert counted(outlet) == dict.fromkeys(sent, 1)
    assert len(worker.events("outcomes.hindered")) == 1


def test_a_result_that_its_topic_does_not_take_keeps_no_other_waiting_and_is_not_lost(
    make_outlet: MakeOutlet,
) -> None:
    outlet = make_outlet(worker=EXPECTED)
    outlet.make(limit_bytes=2500)
    worker = outlet.stage.start()
    (large,) = succeed(outlet, answer=os.urandom(3000).hex())
    alarm = worker.told("outcomes.hindered")
    assert "raise its max.message.bytes" in alarm["reason"]
    small = succeed(outlet, 3)
    outlet.until({(one, 1) for one in small})
    assert waiting(outlet, [large]) == [large]
    with KafkaAdminClient(bootstrap_servers=outlet.kafka) as admin:
        raised = {"max.message.bytes": "100000"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, outlet.name(), raised)])
    told = {one.value["request_id"]: one for one in outlet.until({(large, 1)})}
    assert len(told[large].value["result"]) == 6000
    worker.told("outcomes.free")


def test_what_a_killed_worker_had_not_passed_on_another_one_does(
    make_outlet: MakeOutlet, journal_url: str
) -> None:
    outlet = make_outlet(worker=EXPECTED, journal_url=journal_url)
    first = outlet.stage.start()
    left = succeed(outlet, 3)
    first.told("outcomes.hindered")
    first.send(signal.SIGKILL)
    first.wait()
    outlet.make()
    assert waiting(outlet, left) == left
    outlet.stage.start()
    told = outlet.until({(one, 1) for one in left})
    assert Counter(one.value["request_id"] for one in told) == dict.fromkeys(left, 1)


def test_written_again_by_another_worker_it_is_the_same_record(make_outlet: MakeOutlet) -> None:
    outlet = make_outlet()
    first = outlet.stage.start()
    sent = succeed(outlet, 4)
    before = outlet.until({(one, 1) for one in sent})
    first.send(signal.SIGKILL)
    first.wait()
    # As it stands when the worker dies between Kafka's answer and its note of it.
    outlet.stage.execute("UPDATE onceward_request SET outcome_generation = 0")
    outlet.stage.start()
    told = outlet.until({(one, 1) for one in sent})
    assert counted(outlet) == dict.fromkeys(sent, 2)
    by_id: dict[str, set[tuple[int, bytes | None, bytes | None]]] = {}
    for one in told:
        record = one.record
        known = by_id.setdefault(one.headers["onceward-outcome-id"], set())
        known.add((record.partition, record.key, record.value))
    assert {name: len(known) for name, known in by_id.items()} == {
        f"{one}.outcome.1": 1 for one in sent
    }
    assert len(before) == 4


def test_two_workers_pass_on_each_outcome_once(make_outlet: MakeOutlet, journal_url: str) -> None:
    # What one has written the other writes again when its lease ends before it has noted that.
    outlet = make_outlet(
        journal_url=journal_url, partitions=4, journal={"lease_s": 30, "wait_s": 60}
    )
    for _ in range(2):
        outlet.stage.start()
    eventually(lambda: len(outlet.stage.members()) == 2, timeout_s=LIMIT_S)
    client, topic = outlet.stage.client, outlet.stage.topics["telling"]
    sent = [client.send({"answer": number}, topic=topic).request_id for number in range(60)]
    for one in sent:
        outlet.stage.final(one)
    outlet.until({(one, 1) for one in sent})
    assert counted(outlet) == dict.fromkeys(sent, 1)


def test_a_worker_that_ends_waits_for_no_outcome(make_outlet: MakeOutlet) -> None:
    outlet = make_outlet(worker=EXPECTED)
    worker = outlet.stage.start()
    left = succeed(outlet)
    worker.told("outcomes.hindered")
    assert worker.stop() == 0
    assert waiting(outlet, left) == left


@pytest.mark.long
def test_a_topic_that_was_deleted_is_made_again(make_outlet: MakeOutlet) -> None:
    outlet = make_outlet()
    outlet.stage.start()
    outlet.until({(one, 1) for one in succeed(outlet)})
    with KafkaAdminClient(bootstrap_servers=outlet.kafka) as admin:
        admin.delete_topics([outlet.name()])
    eventually(lambda: outlet.described() is None, timeout_s=LIMIT_S)
    (again,) = succeed(outlet)
    outlet.until({(again, 1)})
    assert counted(outlet) == {again: 1}


@pytest.mark.long
@pytest.mark.timeout(240)
def test_while_kafka_is_away_outcomes_wait_and_are_written_when_it_is_back(
    make_outlet: MakeOutlet, servers: Servers, mortal_broker: Restartable
) -> None:
    outlet = make_outlet(servers=Servers(kafka=mortal_broker.address, redis=servers.redis))
    worker, gate = outlet.stage.start(), outlet.stage.gate()
    outlet.until({(one, 1) for one in succeed(outlet)})
    headers = [("gate", gate.path.encode())]
    sent = outlet.stage.produce(b'{"answer": 1}', headers=headers, handler="telling")
    held = sent.coordinates_id
    eventually(
        lambda: (row := outlet.stage.row(held)) is not None and row["state"] == "CLAIMED",
        timeout_s=LIMIT_S,
    )
    with left_open(), mortal_broker.down():
        gate.open()
        worker.told("outcomes.hindered")
        assert outlet.stage.final(held).state is State.SUCCEEDED
        assert waiting(outlet, [held]) == [held]
    eventually(lambda: outlet.is_written(held), timeout_s=LIMIT_S)
    assert worker.stop() == 0
