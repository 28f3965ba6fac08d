"""Wait topics that are missing or made otherwise, and records there that are none of ours."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from consumer.features.waits.wait_record import EXPIRES, wait_topic
from feedback.clock import epoch_ms
from feedback.records.failure_headers import ORIGINAL_PARTITION
from feedback.status import State
from tests.consumer.features.waits.topics import read_all, unfinished
from tests.consumer.foreign import identity
from tests.consumer.running import command
from tests.consumer.stage import Stage
from tests.eventually import eventually
from tests.stack import Servers

HANDLERS = "tests.consumer.features.waits.wait_handlers"
MakeStage = Callable[..., Stage]


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    return make_stage(
        handlers=("kept",), partitions=2, worker={"handlers": [HANDLERS]}, journal={"url": ""}
    )


def make_wait_topic(servers: Servers, stage: Stage, partitions: int, **configs: str) -> str:
    name = wait_topic(stage.topics["kept"], stage.group)
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
        admin.wait_for_topics([name])
    return name


def waits_finding(stage: Stage, **changes: dict[str, object]) -> tuple[bool, str]:
    ran = command("check", "--json", "--config", str(stage.config(**changes)), **stage.variables())
    (found,) = [
        one for line in ran.stdout.splitlines() if (one := json.loads(line))["what"] == "waits"
    ]
    return found["ok"], found["detail"]


def test_a_check_names_what_is_wrong_with_a_wait_topic(stage: Stage, servers: Servers) -> None:
    assert waits_finding(stage) == (True, f"kept for {stage.topics['kept']}")
    is_well, said = waits_finding(stage, worker={"create_topics": False})
    assert not is_well
    assert "does not exist" in said
    make_wait_topic(servers, stage, 1)
    is_well, said = waits_finding(stage)
    assert not is_well
    assert "not compacted" in said
    assert "1 partitions" in said


def test_one_that_is_not_compacted_is_warned_of_and_works(stage: Stage, servers: Servers) -> None:
    name = make_wait_topic(servers, stage, 1)
    worker = stage.start()
    stage.produce(b'{"answer": 1}', headers=identity("id"), handler="kept", partition=1)
    assert stage.final("id").state is State.SUCCEEDED
    assert worker.told("wait.not_compacted")["topic"] == name
    eventually(lambda: not unfinished(servers, stage, "kept"), interval_s=0.3)


def test_without_a_wait_topic_that_may_be_made_nothing_runs_and_the_reason_is_logged(
    stage: Stage, servers: Servers
) -> None:
    worker = stage.launch_with(worker={"create_topics": False})
    stage.produce(b"{}", headers=identity("id"), handler="kept")
    assert "does not exist" in worker.told("waits.ended")["reason"]
    assert worker.wait() == 3
    assert stage.runs() == []


def test_a_record_by_hand_runs_and_one_that_is_none_harms_nobody(
    stage: Stage, servers: Servers
) -> None:
    worker = stage.start()
    stage.produce(b"{}", headers=identity("first"), handler="kept")
    assert stage.final("first").state is State.SUCCEEDED
    name = wait_topic(stage.topics["kept"], stage.group)
    with KafkaProducer(bootstrap_servers=servers.kafka) as producer:
        soon = b"%d" % (epoch_ms() + 60_000)
        for key, value, headers in (
            (b"no-expiry", b"secret", []),
            (b"two words", b"secret", [(EXPIRES, soon)]),
            (b"no-place", b"secret", [(EXPIRES, soon), (ORIGINAL_PARTITION, b"%d" % 2**31)]),
            (b"tombstone-of-nothing", None, []),
            (b"expired", b'{"answer": 1}', [(EXPIRES, b"1")]),
            (b"by-hand", b'{"answer": 1}', [(EXPIRES, soon), *identity("by-hand")]),
        ):
            producer.send(name, key=key, value=value, headers=headers).get(60)
    assert stage.final("by-hand", timeout_s=30).state is State.SUCCEEDED
    eventually(lambda: len(worker.events("wait.malformed")) == 3)
    assert "secret" not in worker.stderr
    left = {"no-expiry", "expired"}
    said = {one.key.decode() for one in read_all(servers, name) if one.key and one.value}
    assert left <= said
    assert {one["request_id"] for one in stage.runs()} == {"first", "by-hand"}


def test_what_is_larger_than_a_wait_topic_takes_is_a_dead_letter_and_the_next_one_runs(
    stage: Stage, servers: Servers
) -> None:
    make_wait_topic(servers, stage, 2, **{"cleanup.policy": "compact", "max.message.bytes": "2000"})
    stage.start()
    stage.produce(os.urandom(4000), headers=identity("large"), handler="kept", partition=0)
    stage.produce(b'{"answer": 1}', headers=identity("small"), handler="kept", partition=0)
    assert stage.final("small").state is State.SUCCEEDED
    assert [one["request_id"] for one in stage.runs()] == ["small"]
    letters = f"{stage.topics['kept']}.{stage.group}.dlq"
    (letter,) = eventually(lambda: read_all(servers, letters), interval_s=0.3, what="its letter")
    assert dict(letter.headers)["DLQ_REASON"] == b"INVALID_MESSAGE"
