"""The topics, groups and transactional ids that each role uses. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from consumer.features.waits.registry.wait_topics import registry_rights
from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.ops.needed_topics import needed_topics
from feedback.records.retry_group import retry_group
from feedback.rights.needed import KafkaRight, Resource, Role
from feedback.rights.senders import SENDERS, own_topics, sending_rights
from feedback.settings.settings import Settings

READ, WRITE = frozenset({"Read"}), frozenset({"Write"})
CREATE, DESCRIBE = frozenset({"Create"}), frozenset({"Describe"})
CONFIGS = frozenset({"DescribeConfigs"})


class _KafkaNames(NamedTuple):
    settings: Settings
    handlers: tuple[Handler, ...]

    @property
    def group(self) -> str:
        return self.settings.kafka.group

    @property
    def making(self) -> frozenset[str]:
        """What a process needs to make a topic beside another."""
        return CREATE if self.settings.worker.create_topics else frozenset()

    @property
    def sources(self) -> list[str]:
        """The topics of requests: those of handlers, and the client's own."""
        topics = [one.dead_letters_of or one.topic for one in self.handlers]
        return [*dict.fromkeys([*topics, *own_topics(self.settings)])]


def kafka_rights(
    role: Role, settings: Settings, handlers: Iterable[Handler]
) -> tuple[KafkaRight, ...]:
    """Return the rights of a role, each resource once.

    Args:
        handlers: those of the settings; none where this process has no handlers.

    Raises:
        SettingsError: a name would be longer than Kafka allows.
    """
    names = _KafkaNames(settings, tuple(handlers))
    if role in SENDERS:
        return sending_rights(role, names.sources)
    rights: dict[tuple[Resource, str, bool], KafkaRight] = {}
    for one in _BY_ROLE[role](names):
        key = (one.resource, one.name, one.is_prefix)
        first = rights.get(key, one)
        both = first.operations | one.operations
        rights[key] = one._replace(operations=both, wished=(first.wished | one.wished) - both)
    return tuple(rights.values())


def rights_by_topic(
    role: Role, settings: Settings, handlers: Iterable[Handler]
) -> dict[str, frozenset[str]]:
    """Return the operations without which a role fails, by needed topic, as brokers name them.

    `Create` is left out: it is of making a topic, and brokers do not say it of one that is there.

    Raises:
        SettingsError: a name would be longer than Kafka allows.
    """
    handlers = tuple(handlers)
    rights = [one for one in kafka_rights(role, settings, handlers) if one.resource == "topic"]
    found: dict[str, frozenset[str]] = {}
    for topic in needed_topics(settings, handlers):
        named = [
            one.operations - CREATE
            for one in rights
            if topic.name == one.name or (one.is_prefix and topic.name.startswith(one.name))
        ]
        found[topic.name] = frozenset(map(str.upper, frozenset().union(*named)))
    return found


def _of_worker(names: _KafkaNames) -> Iterator[KafkaRight]:
    beside: dict[str, frozenset[str]] = {}
    for topic in needed_topics(names.settings, names.handlers):
        operations = frozenset(one.capitalize() for one in topic.rights)
        if topic.name == topic.like:
            yield _topic(topic.name, operations, CONFIGS)
        elif topic.name.startswith(prefix := f"{topic.like}.{names.group}."):
            beside[prefix] = beside.get(prefix, frozenset()) | operations
        else:
            yield _topic(topic.name, operations | names.making)
    for prefix, operations in beside.items():
        yield _topic(prefix, operations | names.making, CONFIGS, is_prefix=True)
    yield from _groups_of_worker(names)


def _groups_of_worker(names: _KafkaNames) -> Iterator[KafkaRight]:
    yield KafkaRight(Resource.GROUP, names.group, READ)
    if any(one.retries is not None and one.retries.topic_delays_ms for one in names.handlers):
        yield KafkaRight(Resource.GROUP, retry_group(names.group), READ)
    if any(one.delivery is DeliveryKind.AT_LEAST_ONCE for one in names.handlers):
        yield KafkaRight(Resource.GROUP, f"{names.group}.wait", READ)


def _of_registry(names: _KafkaNames) -> Iterator[KafkaRight]:
    kept = [one for one in names.handlers if one.delivery is DeliveryKind.AT_LEAST_ONCE]
    yield from registry_rights(names.settings, [one.topic for one in kept])


def _of_operator(names: _KafkaNames) -> Iterator[KafkaRight]:
    for topic in names.sources:
        yield _topic(topic, READ | WRITE, CONFIGS | names.making)
        prefix = f"{topic}.{names.group}."
        yield _topic(prefix, READ, CONFIGS | names.making, is_prefix=True)
    for one in names.handlers:
        if one.outcome_topic is not None:
            yield _topic(one.outcome_topic, DESCRIBE, CONFIGS | names.making)
    yield KafkaRight(Resource.GROUP, names.group, DESCRIBE)


def _of_auditor(names: _KafkaNames) -> Iterator[KafkaRight]:
    for topic in dict.fromkeys([*names.settings.audit.topics, *names.sources]):
        # Without DescribeConfigs it says that it has not seen a policy, and judges the rest.
        yield _topic(topic, READ, CONFIGS)
        yield _topic(f"{topic}.{names.group}.", READ, CONFIGS, is_prefix=True)
    yield KafkaRight(Resource.GROUP, names.group, DESCRIBE)
    # The audit's settings need not name handlers, so nothing says whether there are retry topics.
    yield KafkaRight(Resource.GROUP, retry_group(names.group), DESCRIBE)


def _of_nobody(names: _KafkaNames) -> Iterator[KafkaRight]:
    return iter(())


def _topic(
    name: str,
    operations: frozenset[str],
    wished: frozenset[str] = frozenset(),
    *,
    is_prefix: bool = False,
) -> KafkaRight:
    return KafkaRight(Resource.TOPIC, name, operations, wished, is_prefix)


_BY_ROLE = {
    Role.WORKER: _of_worker,
    Role.REGISTRY: _of_registry,
    Role.OPERATOR: _of_operator,
    Role.AUDITOR: _of_auditor,
    Role.MIGRATE: _of_nobody,
}
