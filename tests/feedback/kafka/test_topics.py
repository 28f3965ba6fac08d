"""Topics beside a user's topic: made like it where they are missing, or expected to be there."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from feedback.errors import KafkaUnavailable
from feedback.kafka.topics import MAX_MESSAGE_BYTES, KafkaTopics, TopicMissing
from feedback.settings.settings import KafkaSection
from onceward.servers.ports import HOST, free_port
from tests.left_open import left_open
from tests.stack import Servers

LIMIT = "max.message.bytes"


@pytest.fixture
def kafka(servers: Servers, engine: str) -> KafkaSection:
    return KafkaSection(bootstrap_servers=servers.kafka, client=engine, group="unused")


def limit_of(servers: Servers, name: str) -> int:
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        wanted = ConfigResource(ConfigResourceType.TOPIC, name, [LIMIT])
        found = admin.describe_configs([wanted], config_filter="all")
        return int(found["topic"][name][LIMIT]["value"])


def described(servers: Servers, name: str) -> dict[str, Any]:
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        found: dict[str, Any]
        (found,) = admin.describe_topics([name])
        return found


def test_a_missing_topic_is_made_like_its_source_with_room_for_more(
    kafka: KafkaSection, servers: Servers, topic: Callable[..., str]
) -> None:
    source = topic(3)
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        larger = ConfigResource(ConfigResourceType.TOPIC, source, {LIMIT: "2000000"})
        admin.alter_configs([larger])
    KafkaTopics(kafka, create=True).ensure(f"{source}.g.dlq", like=source, room_bytes=1000)
    made = described(servers, f"{source}.g.dlq")
    assert [len(one["replica_nodes"]) for one in made["partitions"]] == [1, 1, 1]
    assert limit_of(servers, f"{source}.g.dlq") == 2_001_000


def test_of_names_those_of_topics_are_visible(
    kafka: KafkaSection, topic: Callable[..., str]
) -> None:
    one, other = sorted((topic(1), topic(2)))
    topics = KafkaTopics(kafka, create=False)
    assert topics.visible([other, f"{one}.missing", "no topic?", one]) == [one, other]
    assert topics.visible([]) == []


def test_a_topic_that_is_there_is_left_as_it_is(
    kafka: KafkaSection, servers: Servers, topic: Callable[..., str]
) -> None:
    source, mine = topic(3), topic(1)
    for _ in range(2):
        KafkaTopics(kafka, create=True).ensure(mine, like=source, room_bytes=1000)
    assert len(described(servers, mine)["partitions"]) == 1
    assert limit_of(servers, mine) == MAX_MESSAGE_BYTES


def test_one_that_has_to_be_there_and_is_not_is_named(
    kafka: KafkaSection, servers: Servers, topic: Callable[..., str]
) -> None:
    source = topic(1)
    topics = KafkaTopics(kafka, create=False)
    with pytest.raises(TopicMissing, match=rf"{source}\.g\.dlq does not exist: create it"):
        topics.ensure(f"{source}.g.dlq", like=source)
    assert topics.missing([source, f"{source}.g.dlq"]) == [f"{source}.g.dlq"]
    topic(1, name=f"{source}.g.dlq")
    topics.ensure(f"{source}.g.dlq", like=source)


def test_without_its_source_it_is_made_as_the_broker_makes_topics(
    kafka: KafkaSection, servers: Servers
) -> None:
    name = f"alone-{uuid.uuid4().hex}"
    KafkaTopics(kafka, create=True).ensure(name, like=f"{name}-gone", room_bytes=1000)
    assert described(servers, name)["partitions"]
    assert limit_of(servers, name) == MAX_MESSAGE_BYTES + 1000


def test_a_name_that_is_none_is_refused_in_words(
    kafka: KafkaSection, topic: Callable[..., str]
) -> None:
    with pytest.raises(KafkaUnavailable, match=r"(?i)invalid ?topic"):
        KafkaTopics(kafka, create=True).ensure("x" * 250, like=topic(1))


def test_what_is_known_is_not_asked_again_until_it_is_forgotten(
    kafka: KafkaSection, servers: Servers, topic: Callable[..., str]
) -> None:
    name = topic(1)
    topics = KafkaTopics(kafka, create=False, timeout_s=1.0)
    topics.ensure(name, like=name)
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.delete_topics([name])
    topics.ensure(name, like=name)
    topics.forget(name)
    with pytest.raises(KafkaUnavailable):
        topics.ensure(name, like=name)


def test_without_a_broker_nothing_is_known(engine: str) -> None:
    nobody = KafkaSection(bootstrap_servers=f"{HOST}:{free_port()}", client=engine, group="unused")
    with left_open(), pytest.raises(KafkaUnavailable, match="Kafka at"):
        KafkaTopics(nobody, create=True, timeout_s=0.5).ensure("a", like="b")
