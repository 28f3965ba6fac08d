"""The topics that those who send requests use: client, relay and resender. Pure."""

from __future__ import annotations

from collections.abc import Collection

from feedback.rights.needed import KafkaRight, Resource, Role
from feedback.settings.settings import Settings

_READ, _WRITE = frozenset({"Read"}), frozenset({"Write"})
_CONFIGS = frozenset({"DescribeConfigs"})
_BY_ROLE = {
    Role.CLIENT: (_WRITE, _CONFIGS),
    Role.RELAY: (_WRITE, _CONFIGS),
    Role.RESENDER: (_READ | _WRITE, frozenset[str]()),
}
SENDERS = frozenset(_BY_ROLE)


def sending_rights(role: Role, topics: Collection[str]) -> tuple[KafkaRight, ...]:
    """Return the rights of one of `SENDERS` to topics of requests."""
    operations, wished = _BY_ROLE[role]
    return tuple(KafkaRight(Resource.TOPIC, one, operations, wished) for one in topics)


def own_topics(settings: Settings) -> list[str]:
    """Return the topics that a program without handlers knows by its settings."""
    own = [settings.client.topic] if settings.client.topic else []
    return [*dict.fromkeys([*own, *settings.http.topics])]
