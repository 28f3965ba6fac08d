"""A topic as Kafka describes it to this user: partitions, replicas, settings, rights."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from feedback.kafka.admin import administrator
from feedback.kafka.administrator import Administrator, TopicDescription
from feedback.kafka.errors import KafkaFault, TopicAbsent, TopicRefused
from feedback.settings.settings import KafkaSection

# Those on which our promises rest.
SETTINGS = ("cleanup.policy", "retention.ms", "max.message.bytes", "min.insync.replicas")


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
    with administrator(settings, timeout_s=timeout_s) as admin:
        found = admin.describe([*names])
        for one in found.values():
            if isinstance(one, KafkaFault) and not isinstance(one, TopicAbsent | TopicRefused):
                raise one
        there = {name: one for name, one in found.items() if isinstance(one, TopicDescription)}
        configs = _settings(admin, there)
    seen = {
        name: TopicFacts(len(one.partitions), one.replicas, configs.get(name, {}), one.rights)
        for name, one in there.items()
    }
    hidden = (name for name, one in found.items() if isinstance(one, TopicRefused))
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


def _settings(admin: Administrator, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the settings of topics; a user who may see them may still not read those."""
    try:
        return admin.configs(names, SETTINGS)
    except KafkaFault:
        return {}
