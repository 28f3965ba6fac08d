"""Kafka's refusal of a retry, after a try whose answer was lost: the record may be there."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaConnectionError, NotLeaderForPartitionError
from kafka.producer.sender import Sender

from feedback.errors import NotSent, SendUnknown
from feedback.records.envelope import Record
from feedback.status import State
from producer_client import Client, Submission
from tests.stack import Servers

Records = Callable[[], list[Record]]
LARGE = Random(1).randbytes(10_000)


def _allow(servers: Servers, topic: str, size: int) -> None:
    """Let a topic take records of so many bytes at most."""
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": str(size)})
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.alter_configs([wanted])


@pytest.fixture
def own_topic(client: Client) -> str:
    """Return the client's topic."""
    assert client.settings.client.topic is not None
    return client.settings.client.topic


@pytest.fixture
def lose_answer(
    client: Client, own_topic: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> list[Exception]:
    """Let each next answer to a producer be this error instead, and the topic take little then."""
    lost: list[Exception] = []
    complete = Sender._complete_batch

    def hear(sender: Any, batch: Any, answer: Any) -> None:
        if lost:
            assert answer.error_code == 0  # Kafka has stored it
            _allow(servers, own_topic, 2000)
            sender._complete_batch_with_exception(batch, lost.pop())
        else:
            complete(sender, batch, answer)

    client.send(b"first", request_id="first")
    monkeypatch.setattr(Sender, "_complete_batch", hear)
    return lost


def test_a_refusal_after_a_lost_answer_is_no_proof(
    client: Client, lose_answer: list[Exception], records: Records
) -> None:
    lose_answer.append(KafkaConnectionError("the broker went away"))
    with pytest.raises(SendUnknown, match="MessageSizeTooLarge"):
        client.send(LARGE, request_id="large")
    assert [one.value for one in records()] == [b"first", LARGE]
    assert client.status("large").state is State.PENDING


def test_of_many_none_is_told_as_not_sent(
    client: Client, lose_answer: list[Exception], records: Records
) -> None:
    lose_answer.append(NotLeaderForPartitionError())
    results = list(client.send_many([Submission(LARGE, key=b"k") for _ in range(3)]))
    there = {dict(one.headers)["onceward-request-id"].decode() for one in records()}
    told_as_not_sent = {one.request_id for one in results if isinstance(one.error, NotSent)}
    assert there
    assert not told_as_not_sent & there


def test_the_first_refusal_is_certain(client: Client, own_topic: str, servers: Servers) -> None:
    client.send(b"first", request_id="first")
    _allow(servers, own_topic, 2000)
    with pytest.raises(NotSent, match="MessageSizeTooLarge"):
        client.send(LARGE, request_id="large")
    assert client.status("large").state is State.UNKNOWN
