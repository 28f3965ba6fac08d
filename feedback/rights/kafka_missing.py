"""The rights that Kafka does not give to the user of the settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing

from feedback.kafka.engines import engine_of
from feedback.kafka.probes import RightsProbe
from feedback.kafka.rights import not_to_be_made
from feedback.kafka.topic_facts import TopicFacts, facts_of
from feedback.rights.lines import admin_config, kafka_line
from feedback.rights.login_names import user_of_kafka
from feedback.rights.needed import KafkaRight, MissingRight, Resource
from feedback.settings.settings import Settings

TIMEOUT_S = 5.0
_CREATE = "Create"
_READ = "Read"


def missing_of_kafka(
    rights: Sequence[KafkaRight], settings: Settings, *, known: Collection[str] = ()
) -> list[MissingRight]:
    """Return those of some rights that Kafka does not give to the user of the settings.

    Of a topic that is not there yet, only whether it may be seen and made is known.

    Args:
        known: the topics by which rights to a prefix are looked at.

    Raises:
        KafkaUnavailable: Kafka did not answer.
        SettingsError: Kafka has no resource of such a name.
    """
    topics = [one for one in rights if one.resource is Resource.TOPIC]
    others = [one for one in rights if one.resource is not Resource.TOPIC]
    missing = [*_of_topics(topics, known, settings)]
    if not others:
        return missing
    engine = engine_of(settings.kafka)
    with closing(engine.rights(settings.kafka, TIMEOUT_S)) as probe:
        for right in others:
            if not _is_given(probe, right):
                missing += _sentences(right, right.operations, settings)
    return missing


def _of_topics(
    rights: Sequence[KafkaRight], known: Collection[str], settings: Settings
) -> Iterator[MissingRight]:
    names = {right: _topics_of(right, known) for right in rights}
    asked = sorted({name for some in names.values() for name in some})
    facts = facts_of(settings.kafka, asked, timeout_s=TIMEOUT_S) if asked else {}
    making = [name for right in rights if _CREATE in _all(right) for name in names[right]]
    unmakable = not_to_be_made(settings.kafka, making, timeout_s=TIMEOUT_S)
    for right, some in names.items():
        lacking = {one for name in some for one in lacking_operations(right, facts.get(name))}
        if _CREATE in _all(right) and not unmakable.isdisjoint(some):
            lacking.add(_CREATE)
        yield from _sentences(right, lacking, settings)


def lacking_operations(right: KafkaRight, facts: TopicFacts | None) -> frozenset[str]:
    """Return the operations of a right that a topic's facts deny; `Create` is asked apart. Pure.

    Args:
        facts: None where the topic does not exist.

    >>> right = KafkaRight(Resource.TOPIC, "pay", frozenset({"Read", "Write"}))
    >>> lacking_operations(right, TopicFacts(1, 1, {}, frozenset({"READ"})))
    frozenset({'Write'})
    """
    wanted = _all(right) - {_CREATE}
    if facts is None:
        return frozenset()
    if facts.is_hidden:
        return wanted
    if not facts.rights:  # an old broker, which does not say
        return frozenset()
    given = {"".join(part.capitalize() for part in one.split("_")) for one in facts.rights}
    return wanted - given


def _topics_of(right: KafkaRight, known: Collection[str]) -> list[str]:
    """Return the topics by which a right is looked at: itself, or those with its prefix."""
    if not right.is_prefix:
        return [right.name]
    return [one for one in known if one.startswith(right.name)] or [f"{right.name}dlq"]


def _is_given(probe: RightsProbe, right: KafkaRight) -> bool:
    if right.resource is Resource.TRANSACTIONAL_ID:
        # A name that no partition has.
        return probe.may_write_as(f"{right.name}check")
    if _READ in right.operations:
        return probe.may_join_group(right.name)
    return probe.may_describe_group(right.name)


def _all(right: KafkaRight) -> frozenset[str]:
    return right.operations | right.wished


def _sentences(
    right: KafkaRight, lacking: Collection[str], settings: Settings
) -> Iterator[MissingRight]:
    kafka = settings.kafka
    user = user_of_kafka(kafka)
    admin = admin_config(kafka.security_protocol)
    for one in sorted(lacking):
        alone = right._replace(operations=frozenset({one}), wished=frozenset())
        yield MissingRight(
            f"Kafka: user {user} has no right {one} on {right.resource} {right.name}"
            + ("*" if right.is_prefix else ""),
            kafka_line(alone, user=user, brokers=kafka.bootstrap_servers, config=admin),
            is_needed=one in right.operations,
        )
