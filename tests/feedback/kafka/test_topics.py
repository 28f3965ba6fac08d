"""Topics beside a user's topic: made like it where they are missing, or expected to be there."""

import uuid
from collections.abc import Callable

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.topics import MAX_MESSAGE_BYTES, KafkaTopics, TopicMissing
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.grounds import Ground
from tests.left_open import left_open

LIMIT = "max.message.bytes"


@pytest.fixture
def kafka(settings: KafkaSection) -> KafkaSection:
    return settings


def test_a_missing_topic_is_made_like_its_source_with_room_for_more(
    kafka: KafkaSection, ground: Ground, topic: Callable[..., str]
) -> None:
    source = topic(3, configs={LIMIT: "2000000"})
    KafkaTopics(kafka, create=True).ensure(f"{source}.g.dlq", like=source, room_bytes=1000)
    assert ground.replicas(f"{source}.g.dlq") == [1, 1, 1]
    assert ground.setting(f"{source}.g.dlq", LIMIT) == "2001000"


def test_of_names_those_of_topics_are_visible(
    kafka: KafkaSection, topic: Callable[..., str]
) -> None:
    one, other = sorted((topic(1), topic(2)))
    topics = KafkaTopics(kafka, create=False)
    assert topics.visible([other, f"{one}.missing", "no topic?", one]) == [one, other]
    assert topics.visible([]) == []


def test_a_topic_that_is_there_is_left_as_it_is(
    kafka: KafkaSection, ground: Ground, topic: Callable[..., str]
) -> None:
    source, mine = topic(3), topic(1)
    for _ in range(2):
        KafkaTopics(kafka, create=True).ensure(mine, like=source, room_bytes=1000)
    assert ground.replicas(mine) == [1]
    assert ground.setting(mine, LIMIT) == str(MAX_MESSAGE_BYTES)


def test_one_that_has_to_be_there_and_is_not_is_named(
    kafka: KafkaSection, topic: Callable[..., str]
) -> None:
    source = topic(1)
    topics = KafkaTopics(kafka, create=False)
    with pytest.raises(TopicMissing, match=rf"{source}\.g\.dlq does not exist: create it"):
        topics.ensure(f"{source}.g.dlq", like=source)
    assert topics.missing([source, f"{source}.g.dlq"]) == [f"{source}.g.dlq"]
    topic(1, name=f"{source}.g.dlq")
    topics.ensure(f"{source}.g.dlq", like=source)


def test_without_its_source_it_is_made_as_the_broker_makes_topics(
    kafka: KafkaSection, ground: Ground
) -> None:
    name = f"alone-{uuid.uuid4().hex}"
    KafkaTopics(kafka, create=True).ensure(name, like=f"{name}-gone", room_bytes=1000)
    assert ground.replicas(name)
    assert ground.setting(name, LIMIT) == str(MAX_MESSAGE_BYTES + 1000)


def test_a_name_that_is_none_is_refused_in_words(
    kafka: KafkaSection, topic: Callable[..., str]
) -> None:
    with pytest.raises(KafkaUnavailable, match=r"(?i)invalid ?topic"):
        KafkaTopics(kafka, create=True).ensure("x" * 250, like=topic(1))


def test_what_is_known_is_not_asked_again_until_it_is_forgotten(
    kafka: KafkaSection, ground: Ground, topic: Callable[..., str]
) -> None:
    name = topic(1)
    topics = KafkaTopics(kafka, create=False, timeout_s=1.0)
    topics.ensure(name, like=name)
    ground.delete_topic(name)
    topics.ensure(name, like=name)
    topics.forget(name)
    with pytest.raises(KafkaUnavailable):
        topics.ensure(name, like=name)


def test_without_a_broker_nothing_is_known(nobody: KafkaSection) -> None:
    with left_open(), pytest.raises(KafkaUnavailable, match="Kafka at"):
        KafkaTopics(nobody, create=True, timeout_s=0.5).ensure("a", like="b")
