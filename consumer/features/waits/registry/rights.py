"""What the registry's user needs on Kafka. Pure."""

from __future__ import annotations

from collections.abc import Collection

from consumer.features.waits.record import wait_topic
from consumer.features.waits.registry.naming import group_of, transactional_prefix
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.rights.needed import KafkaRight, Resource
from feedback.settings.settings import Settings

_READ, _WRITE = frozenset({"Read"}), frozenset({"Write"})
_CONFIGS, _DESCRIBE = frozenset({"DescribeConfigs"}), frozenset({"Describe"})


def registry_rights(settings: Settings, sources: Collection[str]) -> list[KafkaRight]:
    """Return the rights of a registry.

    Args:
        sources: the topics whose requests wait.

    Raises:
        SettingsError: a name would be longer than Kafka allows.
    """
    group = settings.kafka.group
    making = frozenset({"Create"}) if settings.worker.create_topics else frozenset()
    rights: list[KafkaRight] = []
    for one in sources:
        letters = dead_letter_topic(one, group)
        rights += [
            KafkaRight(Resource.TOPIC, wait_topic(one, group), _READ | _WRITE, _CONFIGS),
            KafkaRight(Resource.TOPIC, letters, _READ | _WRITE | making),
            KafkaRight(Resource.TOPIC, one, _DESCRIBE, _CONFIGS),
        ]
    name = transactional_prefix(group)
    return [
        *rights,
        KafkaRight(Resource.GROUP, group_of(group), _READ),
        KafkaRight(Resource.TRANSACTIONAL_ID, name, _WRITE, is_prefix=True),
    ]
