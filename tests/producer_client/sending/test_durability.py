"""Delivery in words: what `safe` asks of a topic, what it refuses, and what `fast` gives up."""

from collections.abc import Callable
from random import Random

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from feedback.clock import monotonic_s
from feedback.errors import NotSent, SendUnknown, SettingsError
from feedback.kafka.durability import FAST, PLAIN, durability_of
from feedback.kafka.send_errors import TopicUnsafe
from feedback.kafka.topic_safety import TopicSafety
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from feedback.status import State
from producer_client import Client, Submission
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient, MakeSettings
from tests.stack import Servers

Records = Callable[[], list[Record]]


def _demand(servers: Servers, topic: str, replicas: int) -> None:
    """Let a topic want so many replicas in sync."""
    _configure(servers, topic, {"min.insync.replicas": str(replicas)})


def _configure(servers: Servers, topic: str, configs: dict[str, str]) -> None:
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, configs)
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.alter_configs([wanted])


def test_words_mean_what_they_say() -> None:
    safe = durability_of("safe", min_insync_replicas=3)
    assert (safe.acks, safe.is_idempotent, safe.min_insync) == ("all", True, 3)
    assert durability_of("", min_insync_replicas=2) == PLAIN
    assert (PLAIN.acks, PLAIN.min_insync, PLAIN.in_flight) == ("all", 0, 1)
    assert durability_of("fast", min_insync_replicas=2) == FAST
    assert (FAST.acks, FAST.is_idempotent) == (1, False)


def test_another_word_is_refused_at_once(make_settings: MakeSettings) -> None:
    with pytest.raises(SettingsError, match=r"\[client\] durability"):
        make_settings(durability="sure")
    with pytest.raises(SettingsError, match="durability 'sure': 'safe' or 'fast'"):
        Client(make_settings(), durability="sure")  # type: ignore[arg-type]


def test_safe_refuses_a_topic_of_one_replica_in_time_and_says_what_to_do(
    make_client: MakeClient, worker: Worker, records: Records
) -> None:
    client = make_client(durability="safe")
    topic = client.settings.client.topic
    began_s = monotonic_s()
    with pytest.raises(NotSent) as caught:
        client.send(b"v")
    assert monotonic_s() - began_s < client.settings.client.send_timeout_s
    assert isinstance(caught.value.__cause__, TopicUnsafe)
    said = str(caught.value)
    assert f"topic {topic!r} has min.insync.replicas = 1" in said
    assert "[client] min_insync_replicas = 1" in said
    assert worker.traces() == []
    assert records() == []


def test_of_many_each_is_refused_and_kafka_is_asked_once(
    make_client: MakeClient, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def ask(settings: KafkaSection, topic: str, *, timeout_s: float) -> int:
        asked.append(topic)
        return 1

    monkeypatch.setattr("feedback.kafka.topic_safety.min_insync_replicas", ask)
    client = make_client(durability="safe")
    results = list(client.send_many(Submission(b"v") for _ in range(200)))
    assert {type(result.error) for result in results} == {NotSent}
    assert asked == [client.settings.client.topic]
    assert worker.traces() == []


def test_safe_sends_where_it_was_told_that_one_replica_will_do(
    make_client: MakeClient, records: Records
) -> None:
    client = make_client(durability="safe", min_insync_replicas=1)
    for number in range(3):
        client.send(b"%d" % number)
    assert [record.value for record in records()] == [b"0", b"1", b"2"]


def test_fast_sends(make_client: MakeClient, records: Records) -> None:
    client = make_client(durability="fast")
    assert all(result.sent for result in client.send_many(Submission(b"v") for _ in range(300)))
    client.send(b"last")
    assert len(records()) == 301


def test_an_unknown_topic_is_named_as_unknown(make_client: MakeClient, worker: Worker) -> None:
    client = make_client(durability="safe", send_timeout_s=3)
    with pytest.raises(NotSent, match="knows no topic 'nowhere'"):
        client.send(b"v", topic="nowhere")
    assert worker.traces() == []


def test_a_topic_that_was_mended_is_taken_without_a_restart(
    servers: Servers, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(1)
    safety = TopicSafety(KafkaSection(bootstrap_servers=servers.kafka), at_least=2)
    fault = safety.fault(name, until_s=monotonic_s() + 10)
    assert fault is not None
    assert not safety.knows(name)
    _demand(servers, name, 2)
    # Not asked again at once.
    assert safety.fault(name, until_s=monotonic_s() + 10) == fault
    monkeypatch.setattr("feedback.kafka.topic_safety.ASKED_AGAIN_S", 0.0)
    assert safety.fault(name, until_s=monotonic_s() + 10) is None
    assert safety.knows(name)


def test_who_may_not_read_the_setting_is_told_so(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "feedback.kafka.topic_safety.min_insync_replicas", lambda *given, **named: None
    )
    safety = TopicSafety(KafkaSection(bootstrap_servers=servers.kafka), at_least=2)
    fault = safety.fault("payments", until_s=monotonic_s() + 10)
    assert fault is not None
    assert "topic 'payments'" in fault
    assert "DescribeConfigs" in fault
    assert "min_insync_replicas = 1" in fault


def test_what_an_idempotent_producer_is_refused_ends_neither_others_nor_the_client(
    make_client: MakeClient, servers: Servers
) -> None:
    client = make_client(durability="safe", min_insync_replicas=1)
    topic = client.settings.client.topic
    assert topic is not None
    _configure(servers, topic, {"max.message.bytes": "2000"})
    client.send(b"before", request_id="before")
    with pytest.raises(SendUnknown):
        # Kafka's refusal is of all that the producer has, so of no record it is certain.
        client.send(Random(1).randbytes(10_000), request_id="large")
    assert client.status("large").state is State.PENDING
    client.send(b"after", request_id="after")
    assert client.status("after").state is State.PENDING
