"""A right: where, and to do what. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple


class Role(StrEnum):
    """The user of one kind of process, or of a person."""

    WORKER = "worker"
    CLIENT = "client"
    RESENDER = "resender"
    RELAY = "relay"
    REGISTRY = "registry"
    OPERATOR = "operator"
    AUDITOR = "auditor"
    MIGRATE = "migrate"


class Resource(StrEnum):
    """A kind of resource of Kafka, as `kafka-acls` names it."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


class KafkaRight(NamedTuple):
    """Rights to one resource of Kafka.

    Args:
        name: of the topic, group or transactional id.
        operations: without them the role fails; as Kafka names them: `Read`.
        wished: without them it works, and knows less.
        is_prefix: all resources are meant whose names begin so.
    """

    resource: Resource
    name: str
    operations: frozenset[str]
    wished: frozenset[str] = frozenset()
    is_prefix: bool = False


class RedisRight(NamedTuple):
    """Rights to Redis.

    Args:
        commands: without them the role fails; in lower case, a subcommand after a bar.
        wished: without them it works, and knows less.
        keys: patterns.
        channels: patterns.
    """

    commands: frozenset[str]
    wished: frozenset[str]
    keys: tuple[str, ...]
    channels: tuple[str, ...]


class SqlRight(NamedTuple):
    """Rights to one thing in a database.

    Args:
        kind: DATABASE, SCHEMA, TABLE or SEQUENCE.
        name: of a table or sequence; empty for the database and schema of the URL.
        privileges: as GRANT names them: `SELECT`.
    """

    kind: str
    name: str
    privileges: tuple[str, ...]


class RoleRights(NamedTuple):
    """All rights of one role.

    Args:
        redis: None where the role asks Redis nothing.
        sql: by the section of the settings whose `url` names the database.
    """

    kafka: tuple[KafkaRight, ...] = ()
    redis: RedisRight | None = None
    sql: Mapping[str, tuple[SqlRight, ...]] = MappingProxyType({})


class MissingRight(NamedTuple):
    """A right that a user lacks.

    Args:
        sentence: who may not do what, where.
        grant: the command that gives it.
        is_needed: without it the role fails; else it knows less.
    """

    sentence: str
    grant: str
    is_needed: bool = True

    def __str__(self) -> str:
        return f"{self.sentence}; grant it: {self.grant}"
