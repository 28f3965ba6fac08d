"""Questions and requests about topics and groups, on librdkafka."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import closing
from typing import Any, TypeVar

from confluent_kafka import (
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka import admin as confluent_admin

from feedback.clock import monotonic_s
from feedback.kafka.administrator import Administrator, NewTopic, OffsetMark, TopicDescription
from feedback.kafka.confluent.connection import connection
from feedback.kafka.confluent.faults import fault_from, faults
from feedback.kafka.confluent.standing import ClientStanding, await_broker
from feedback.kafka.errors import KafkaFault, TopicExists
from feedback.kafka.values import Partition
from feedback.settings.settings import KafkaSection

# Its types are incomplete.
_LIBRARY: Any = confluent_admin
_MARKS = {
    OffsetMark.BEGIN: (_LIBRARY.OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED),
    OffsetMark.END: (_LIBRARY.OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED),
    OffsetMark.COMMITTED_END: (_LIBRARY.OffsetSpec.latest(), IsolationLevel.READ_COMMITTED),
}
# The library's own limit ends a request; this one is for a library that does not.
_SLACK_S = 1.0
_PAUSE_S = 0.05

K = TypeVar("K")


class ConfluentAdministrator:
    """See `feedback.kafka.administrator.Administrator`.

    Args:
        settings: brokers and security.
        timeout_s: how long Kafka may take for the connection, and for one answer.
        other: connects another engine's, for what a group's coordinator is asked. librdkafka 2.16
            aborts the process where a broker comes back that was away during such a request
            (confluentinc/librdkafka#4605).
    """

    def __init__(
        self, settings: KafkaSection, timeout_s: float, other: Callable[[], Administrator]
    ) -> None:
        self._settings = settings
        self._other = other
        self._limit_s = max(0.001, timeout_s)
        self._limit = {"request_timeout": self._limit_s}
        standing = ClientStanding(settings)
        with faults(settings):
            self._admin = _LIBRARY.AdminClient(
                {**connection(settings), "error_cb": standing.hear_error}
            )
        await_broker(self._admin, standing, settings, timeout_s)

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        with faults(self._settings):
            found = self._answer(self._admin.describe_cluster(**self._limit))
        return str(found.cluster_id or "")

    def topics(self) -> frozenset[str]:
        """Return the names of all topics that this user may see."""
        with faults(self._settings):
            return frozenset(self._admin.list_topics(timeout=self._limit_s).topics)

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaFault]:
        """Return the description of each topic, or why Kafka does not give it."""
        if not names:
            return {}
        with faults(self._settings):
            asked = self._admin.describe_topics(
                TopicCollection(sorted(names)),
                include_authorized_operations=True,
                **self._limit,
            )
            found = self._answers(asked)
        return {
            name: one if isinstance(one, KafkaFault) else _described(one)
            for name, one in found.items()
        }

    def configs(self, topics: Collection[str], names: Collection[str]) -> dict[str, dict[str, str]]:
        """Return settings of topics."""
        asked = [
            _LIBRARY.ConfigResource(_LIBRARY.ResourceType.TOPIC, one) for one in sorted(topics)
        ]
        if not asked:
            return {}
        with faults(self._settings):
            found = self._answers(self._admin.describe_configs(asked, **self._limit))
        return {
            resource.name: {name: str(one[name].value) for name in names if name in one}
            for resource, one in found.items()
            if not isinstance(one, KafkaFault)
        }

    def make(
        self, topics: Mapping[str, NewTopic], *, only_rehearse: bool = False
    ) -> dict[str, KafkaFault]:
        """Make topics; return the refusals when brokers know the others."""
        until_s = monotonic_s() + self._limit_s
        wanted = [_wanted(name, one) for name, one in topics.items()]
        with faults(self._settings):
            asked = self._admin.create_topics(wanted, validate_only=only_rehearse, **self._limit)
            found = self._answers(asked)
        refused = {name: one for name, one in found.items() if isinstance(one, KafkaFault)}
        if not only_rehearse:
            # One that exists may have been made a moment ago.
            lost = {name for name, why in refused.items() if not isinstance(why, TopicExists)}
            self._await_topics(topics.keys() - lost, until_s)
        return refused

    def _await_topics(self, names: Collection[str], until_s: float) -> None:
        while True:
            unknown = [one for one in self.describe(names).values() if isinstance(one, KafkaFault)]
            if not unknown:
                return
            if monotonic_s() >= until_s:
                raise unknown[0]
            time.sleep(_PAUSE_S)

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics."""
        if names:
            with faults(self._settings):
                self._all(self._admin.delete_topics([*names], **self._limit))

    def groups(self) -> frozenset[str]:
        """Return the names of all groups that this user may see."""
        with faults(self._settings):
            found = self._answer(self._admin.list_consumer_groups(**self._limit))
            for error in found.errors:
                raise KafkaException(error)
        return frozenset(one.group_id for one in found.valid)

    def delete_groups(self, names: Collection[str]) -> None:
        """Delete groups without members."""
        with closing(self._other()) as other:
            other.delete_groups(names)

    def remove_member(self, group: str, member_id: str) -> None:
        """Remove a member of a group, as if it had left."""
        with closing(self._other()) as other:
            other.remove_member(group, member_id)

    def offsets(self, partitions: Collection[Partition], mark: OffsetMark) -> dict[Partition, int]:
        """Return the offset of each partition at a mark."""
        return self._offsets(partitions, *_MARKS[mark])

    def offsets_at(self, partitions: Collection[Partition], epoch_ms: int) -> dict[Partition, int]:
        """Return the offset of the first record that is not before a time."""
        at = _LIBRARY.OffsetSpec.for_timestamp(epoch_ms)
        return self._offsets(partitions, at, IsolationLevel.READ_UNCOMMITTED)

    def group_offsets(
        self, asked: Mapping[str, Collection[Partition] | None]
    ) -> dict[Partition, int]:
        """Return the offsets that groups have committed."""
        with closing(self._other()) as other:
            return other.group_offsets(asked)

    def close(self) -> None:
        """Close the connection."""
        # It has no other way.
        del self._admin

    def _offsets(
        self, partitions: Collection[Partition], spec: Any, isolation: IsolationLevel
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        asked = {TopicPartition(*one): spec for one in partitions}
        with faults(self._settings):
            found = self._all(
                self._admin.list_offsets(asked, isolation_level=isolation, **self._limit)
            )
        return {(one.topic, one.partition): answer.offset for one, answer in found.items()}

    def _answer(self, asked: Future[Any]) -> Any:
        try:
            return asked.result(self._limit_s + _SLACK_S)
        except TimeoutError as error:
            where = f"Kafka at {self._settings.bootstrap_servers}"
            raise KafkaFault(f"{where} did not answer in time") from error

    def _all(self, asked: Mapping[K, Future[Any]]) -> dict[K, Any]:
        return {key: self._answer(one) for key, one in asked.items()}

    def _answers(self, asked: Mapping[K, Future[Any]]) -> dict[K, Any]:
        """Return the answers, or what the broker refused; what is no broker's word is raised."""
        found: dict[K, Any] = {}
        for key, one in asked.items():
            try:
                found[key] = self._answer(one)
            except KafkaException as error:
                if error.args[0].code() < 0:
                    raise
                topic = key if isinstance(key, str) else ""
                found[key] = fault_from(error.args[0], self._settings, topic=topic)
        return found


def _described(found: Any) -> TopicDescription:
    partitions = found.partitions
    return TopicDescription(
        name=found.name,
        topic_id=_topic_id(found.topic_id),
        partitions=tuple(one.id for one in partitions),
        replicas=len(partitions[0].replicas) if partitions else 0,
        rights=frozenset(one.name for one in found.authorized_operations or ()),
    )


def _topic_id(given: Any) -> str:
    """Return an id as kafka-python says it: librdkafka has another text for it.

    A broker that has none sends zeros.
    """
    found = uuid.UUID(bytes=base64.urlsafe_b64decode(f"{given}=="))
    return str(found) if found.int else ""


def _wanted(name: str, one: NewTopic) -> Any:
    return _LIBRARY.NewTopic(
        name,
        num_partitions=-1 if one.partitions is None else one.partitions,
        replication_factor=-1 if one.replicas is None else one.replicas,
        config=dict(one.configs),
    )
