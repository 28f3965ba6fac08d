"""A broker on which a user has no right but those that a test gives: a real one, or in memory."""

from __future__ import annotations

import uuid
from typing import Protocol

from kafka.admin import ACLOperation, KafkaAdminClient, NewTopic, ResourceType

from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.rights import GuardedKind
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.members import write
from tests.stack.secured import SecuredKafka

USER, PASSWORD = "member", "right"
VALUES = [b"1", b"2", b"3"]


class GuardedGround(Protocol):
    """A broker, and the rights of one user there."""

    def settings(self) -> KafkaSection:
        """Return settings of the user, for a group that nobody else uses."""

    def topic(self, *operations: ACLOperation) -> str:
        """Make a topic with records, and give the user rights to it."""

    def allow(self, kind: ResourceType, name: str, *operations: ACLOperation) -> None:
        """Give the user rights."""


class SecuredGround:
    """The secured broker, and one engine."""

    def __init__(self, broker: SecuredKafka, engine: str) -> None:
        self._broker = broker
        self._engine = engine

    def settings(self) -> KafkaSection:
        """Return settings of the user, for a group that nobody else uses."""
        return settings_of_user(self._broker, self._engine)

    def topic(self, *operations: ACLOperation) -> str:
        """Make a topic with records, and give the user rights to it."""
        return guarded_topic(self._broker, *operations)

    def allow(self, kind: ResourceType, name: str, *operations: ACLOperation) -> None:
        """Give the user rights."""
        self._broker.allow(USER, kind, name, *operations)


class GuardedMemory:
    """A broker in memory that allows nothing by itself."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def settings(self) -> KafkaSection:
        """Return settings of the user, for a group that nobody else uses."""
        group = f"group-{uuid.uuid4().hex}"
        return KafkaSection(bootstrap_servers=self._broker.address, group=group)

    def topic(self, *operations: ACLOperation) -> str:
        """Make a topic with records, and give the user rights to it."""
        name = f"topic-{uuid.uuid4().hex}"
        self._broker.make_topic(name)
        for value in VALUES:
            self._broker.append(name, value)
        self.allow(ResourceType.TOPIC, name, *operations)
        return name

    def allow(self, kind: ResourceType, name: str, *operations: ACLOperation) -> None:
        """Give the user rights."""
        self._broker.allow(GuardedKind[kind.name], name, *(one.name for one in operations))


def settings_of_user(broker: SecuredKafka, engine: str, **changed: object) -> KafkaSection:
    """Return settings of the user of a secured broker, changed as named."""
    given: dict[str, object] = {
        "client": engine,
        "group": f"group-{uuid.uuid4().hex}",
        "bootstrap_servers": broker.address,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(broker.cafile),
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }
    return KafkaSection.model_validate(given | changed)


def guarded_topic(broker: SecuredKafka, *operations: ACLOperation) -> str:
    """Make a topic with records, and give the user rights to it."""
    name = f"topic-{uuid.uuid4().hex}"
    with KafkaAdminClient(bootstrap_servers=broker.plain) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
        admin.wait_for_topics([name])
    write(broker.plain, name, VALUES)
    if operations:
        broker.allow(USER, ResourceType.TOPIC, name, *operations)
    return name
