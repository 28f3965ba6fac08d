"""Questions about topics, their offsets, and the offsets that groups have committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import (
    GroupAuthorizationFailedError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka.kafka_python.admin import connect_administrator
from feedback.kafka.kafka_python.faults import fault_of, unavailable
from feedback.settings.settings import KafkaSection

TIMEOUT_MS = 30_000
PAUSE_S = 0.2

Partition = tuple[str, int]
T = TypeVar("T")


class NoSuchTopic(NotAvailable):
    """A topic does not exist.

    Args:
        topic: its name.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} does not exist")
        self.topic = topic


class TopicFound(NamedTuple):
    """A topic as Kafka describes it.

    Attributes:
        topic_id: a new one each time that a topic of this name is created; empty where Kafka has
            none.
        partitions: their numbers.
    """

    name: str
    topic_id: str
    partitions: tuple[int, ...]


class KafkaQuestions:
    """Asks the brokers; asks again while they choose a leader or a coordinator.

    Every question may raise kafka-python's errors: `asking` turns them into sentences.

    Args:
        admin: kafka-python's, connected.
    """

    def __init__(self, admin: KafkaAdminClient) -> None:
        self._admin = admin

    def cluster_id(self) -> str:
        """Return the id of the cluster; empty where it has none."""
        return str(_patiently(self._admin.describe_cluster).get("cluster_id") or "")

    def topics(self) -> set[str]:
        """Return the names of all topics that this user may see."""
        return set(self._admin.list_topics())

    def describe(self, names: Iterable[str]) -> list[TopicFound]:
        """Return the descriptions of topics, by name.

        Raises:
            NoSuchTopic: one of them does not exist.
            NotAvailable: this user may not read one of them.
        """
        return [_found(one) for one in self._admin.describe_topics(sorted(names))]

    def configs(self, topics: Iterable[str], name: str) -> dict[str, str]:
        """Return a setting of each topic; a topic whose settings the user may not see is absent."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, one, [name]) for one in sorted(topics)]
        if not asked:
            return {}
        # "all" includes the defaults: without them a topic with the default setting would look
        # hidden.
        answer = _patiently(lambda: self._admin.describe_configs(asked, config_filter="all"))
        return {
            topic: str(configs[name]["value"])
            for topic, configs in answer.get("topic", {}).items()
            if name in configs
        }

    def begins(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset of the first record that each partition still has."""
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset after the last record of each partition, open transactions included."""
        return self._offsets(partitions, OffsetSpec.LATEST)

    def committed_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset of each partition before which all transactions have ended."""
        return self._offsets(partitions, OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED)

    def at_time(self, partitions: Collection[Partition], epoch_ms: int) -> dict[Partition, int]:
        """Return the offset of the first record of each partition that is not before a time; -1
        where no record is so late."""
        return self._offsets(partitions, epoch_ms)

    def group_offsets(self, asked: Mapping[str, Iterable[Partition]]) -> dict[Partition, int]:
        """Return the offsets that groups have committed; a partition without one is absent.

        Args:
            asked: the partitions of each group.
        """
        wanted = {
            group: [TopicPartition(*one) for one in partitions]
            for group, partitions in asked.items()
        }
        found = _patiently(lambda: self._admin.list_group_offsets(wanted))
        return {
            (*one,): mark.offset
            for marks in found.values()
            for one, mark in marks.items()
            if mark.offset >= 0
        }

    def _offsets(
        self,
        partitions: Collection[Partition],
        spec: int,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        asked = {TopicPartition(*one): spec for one in partitions}
        answers = _patiently(
            lambda: self._admin.list_partition_offsets(
                asked, isolation_level=isolation, timeout_ms=TIMEOUT_MS
            )
        )
        return {(*one,): answer.offset for one, answer in answers.items()}


@contextmanager
def asking(settings: KafkaSection) -> Iterator[KafkaQuestions]:
    """Yield the questions on one connection, which is closed at the end.

    Raises:
        NotAvailable: Kafka is away, or this user may not ask about a topic or the group.
    """
    try:
        admin = connect_administrator(settings, timeout_s=TIMEOUT_MS / 1000)
    except KafkaError as error:
        raise unavailable(KafkaUnavailable, error, settings) from error
    except (ValueError, OSError) as error:
        # For example an invalid address, or a certificate that cannot be read.
        raise KafkaUnavailable(f"the [kafka] settings do not work: {error}") from error
    try:
        yield KafkaQuestions(admin)
    except TopicAuthorizationFailedError as error:
        raise _no_right(settings, error, "Describe and Read on the topics") from error
    except GroupAuthorizationFailedError as error:
        raise _no_right(settings, error, "Describe on the group") from error
    except KafkaError as error:
        raise unavailable(KafkaUnavailable, error, settings) from error
    finally:
        admin.close()


def _found(topic: Mapping[str, Any]) -> TopicFound:
    name, code = topic["name"], topic["error_code"]
    if code == UnknownTopicOrPartitionError.errno:
        raise NoSuchTopic(name)
    if code == TopicAuthorizationFailedError.errno:
        raise NotAvailable(
            f"topic {name} may not be read: it needs the rights Describe and Read for this user"
        )
    if code:
        raise for_code(code)(f"topic {name}")
    numbers = tuple(one["partition_index"] for one in topic["partitions"])
    return TopicFound(name, str(topic.get("topic_id") or ""), numbers)


def _patiently(ask: Callable[[], T]) -> T:
    deadline_s = monotonic_s() + TIMEOUT_MS / 1000
    while True:
        try:
            return ask()
        except KafkaError as error:
            if not error.retriable or monotonic_s() >= deadline_s:
                raise
        time.sleep(PAUSE_S)


def _no_right(settings: KafkaSection, error: KafkaError, right: str) -> NotAvailable:
    said = f"Kafka at {settings.bootstrap_servers} refuses: this user needs {right}"
    return NotAvailable(said).because(fault_of(error))
