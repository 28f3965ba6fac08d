"""The topics of a day: what each is for, its partitions, and what its readers have committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import (
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from feedback.errors import NotAvailable
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.retry_group import retry_group
from feedback.settings.settings import Settings
from spark_audit.stage.kafka_asked import patiently
from spark_audit.stage.manifest import Kind, Manifest

# Strategies by which a failure becomes a dead letter.
KEPT = ("keep", "stop")

# What the topic of each partition is for.
Kinds = Mapping[TopicPartition, Kind]


def kind_of(name: str, topics: Iterable[str], group: str) -> Kind | None:
    """Return what a topic is for; None when it is not among those of these request topics.

    Beside the topic that it belongs to, a retry, wait or dead letter topic of the group is one of
    these also where it is named: its records are no requests of their own.

    >>> kind_of("pay.g.retry.5s", ["pay"], "g")
    <Kind.RETRY: 'retry'>
    >>> kind_of("pay.other.dlq", ["pay"], "g") is None
    True
    """
    for topic in topics:
        own = f"{topic}.{group}."
        if name in (f"{own}dlq", f"{own}wait"):
            return Kind(name.removeprefix(own))
        if name.startswith(f"{own}retry.") and len(name) > len(f"{own}retry."):
            return Kind.RETRY
    return Kind.REQUEST if name in topics else None


def partitions_of(
    admin: KafkaAdminClient, topics: Sequence[str], group: str
) -> tuple[Kinds, Mapping[str, str]]:
    """Return what each partition is for, and the id of each topic.

    Raises:
        NotAvailable: a topic is missing, or may not be read.
    """
    there = admin.list_topics()
    asked = {name: kind for name in there if (kind := kind_of(name, topics, group))}
    # Those of the settings are asked for by name: a broker leaves out of its list what the user
    # may not see, and says so only when it is asked.
    asked |= {name: kind for name in topics if (kind := kind_of(name, topics, group))}
    kinds: dict[TopicPartition, Kind] = {}
    ids: dict[str, str] = {}
    for found in admin.describe_topics(sorted(asked)):
        _require(found)
        ids[found["name"]] = str(found.get("topic_id") or "")
        for one in found["partitions"]:
            kinds[TopicPartition(found["name"], one["partition_index"])] = asked[found["name"]]
    return kinds, ids


def _require(topic: Mapping[str, Any]) -> None:
    name, code = topic["name"], topic["error_code"]
    if code == UnknownTopicOrPartitionError.errno:
        raise NotAvailable(f"topic {name} does not exist: create it, or correct [audit] topics")
    if code == TopicAuthorizationFailedError.errno:
        raise NotAvailable(
            f"topic {name} may not be read: it needs the rights Describe and Read for this user"
        )
    if code:
        raise for_code(code)(f"topic {name}")


def as_before(kinds: Kinds, ids: Mapping[str, str], fixed: Manifest) -> Kinds:
    """Return the partitions that the day was read from.

    Raises:
        NotAvailable: one of them is gone.
    """
    was = {TopicPartition(one.topic, one.partition): one.topic_id for one in fixed.links}
    for one, topic_id in was.items():
        if one not in kinds or ids[one.topic] != topic_id:
            raise NotAvailable(
                f"{fixed.date} cannot be read again: topic {one.topic} was deleted since"
            )
    return {one: kinds[one] for one in was}


def committed_of(
    admin: KafkaAdminClient, group: str, kinds: Kinds
) -> Mapping[TopicPartition, OffsetAndMetadata]:
    """Return what the workers have committed, in their group and in that of their retries."""
    asked: dict[str, list[TopicPartition]] = {}
    for one, kind in kinds.items():
        asked.setdefault(retry_group(group) if kind is Kind.RETRY else group, []).append(one)
    found = patiently(lambda: admin.list_group_offsets(asked))
    return {one: mark for marks in found.values() for one, mark in marks.items()}


def lettered_of(settings: Settings, there: Iterable[str]) -> tuple[str, ...]:
    """Return the request topics whose failures are kept, and whose dead letter topic is there."""
    group = settings.kafka.group
    return tuple(
        topic
        for topic in sorted(settings.audit.topics)
        if settings.worker.dead_letters_of(topic) in KEPT
        and dead_letter_topic(topic, group) in there
    )
