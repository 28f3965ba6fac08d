"""A topic as Kafka describes it to this user: partitions, replicas, settings, rights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from feedback.kafka.kafka_python.admin import administrator, kafka_faults
from feedback.settings.settings import KafkaSection

# Those on which our promises rest.
SETTINGS = ("cleanup.policy", "retention.ms", "max.message.bytes", "min.insync.replicas")
_UNKNOWN, _HIDDEN = UnknownTopicOrPartitionError.errno, TopicAuthorizationFailedError.errno


class TopicFacts(NamedTuple):
    """A topic that exists, or that this user may not see.

    Attributes:
        settings: those of `SETTINGS` that this user may read.
        rights: of this user, as `READ`; empty where Kafka does not say.
        is_hidden: Kafka does not even say whether it exists.
    """

    partitions: int
    replicas: int
    settings: Mapping[str, str]
    rights: frozenset[str]
    is_hidden: bool = False


HIDDEN = TopicFacts(0, 0, {}, frozenset(), is_hidden=True)


def facts_of(
    settings: KafkaSection, names: Iterable[str], *, timeout_s: float = 5.0
) -> dict[str, TopicFacts]:
    """Return the facts of topics; of those that do not exist, none.

    Args:
        timeout_s: how long Kafka may take for one answer.

    Raises:
        KafkaUnavailable: Kafka did not answer, or refused to describe one.
    """
    with kafka_faults(settings), administrator(settings, timeout_s=timeout_s) as admin:
        found = {one["name"]: one for one in admin.describe_topics([*names])}
        hidden = {name for name, one in found.items() if one["error_code"] == _HIDDEN}
        for name, one in found.items():
            if one["error_code"] not in (0, _UNKNOWN, _HIDDEN):
                raise for_code(one["error_code"])(name)
        there = {name: one for name, one in found.items() if not one["error_code"]}
        configs = _settings(admin, there)
    seen = {name: _facts(one, configs.get(name, {})) for name, one in there.items()}
    return seen | dict.fromkeys(hidden, HIDDEN)


def not_there(
    settings: KafkaSection, names: Collection[str], *, advice: str = "", timeout_s: float = 5.0
) -> str:
    """Return the end of a sentence about topics that this user does not see.

    Args:
        names: topics that Kafka does not list; for a user without a right it lists none.
        advice: how a missing one is made.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    facts = facts_of(settings, names, timeout_s=timeout_s)
    hidden = sorted(name for name in names if name in facts and facts[name].is_hidden)
    missing = sorted({*names} - {*hidden})
    said = []
    if missing:
        said.append(f"has no topic {', '.join(missing)}{advice}")
    if hidden:
        said.append(f"does not let this user see {', '.join(hidden)}: add an ACL")
    return ", and ".join(said)


def _facts(described: Mapping[str, Any], settings: Mapping[str, str]) -> TopicFacts:
    partitions = described["partitions"]
    return TopicFacts(
        partitions=len(partitions),
        replicas=len(partitions[0]["replica_nodes"]),
        settings=settings,
        rights=frozenset(described.get("authorized_operations") or ()),
    )


def _settings(admin: Any, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics; a user who may see them may still not read those."""
    wanted = [ConfigResource(ConfigResourceType.TOPIC, one, [*SETTINGS]) for one in names]
    if not wanted:
        return {}
    try:
        found = admin.describe_configs(wanted, config_filter="all")["topic"]
    except (KafkaError, KeyError):
        return {}
    return {
        topic: {name: str(one["value"]) for name, one in of_topic.items()}
        for topic, of_topic in found.items()
    }
