"""Makes the topics beside a user's topic: its dead letters, its retries.

They get the partitions and the replication of their source, where they are missing; or they are
expected to exist. A topic that a user makes beforehand is taken as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python.admin import administrator, kafka_faults
from feedback.settings.settings import KafkaSection

# Kafka's own default, of brokers and topics, for users who may not read their settings.
MAX_MESSAGE_BYTES = 1_048_588
_LIMIT = "max.message.bytes"
_MIN_INSYNC = "min.insync.replicas"
CLEANUP, COMPACT = "cleanup.policy", "compact"


class TopicMissing(KafkaUnavailable):
    """The topic does not exist and is not made: a person has to make it."""


class KafkaTopics:
    """Makes sure that topics exist; asks Kafka once for each. Belongs to one thread.

    Args:
        settings: brokers and security.
        create: whether to make missing topics.
        timeout_s: how long Kafka may take for one answer.
    """

    def __init__(self, settings: KafkaSection, *, create: bool, timeout_s: float = 5.0) -> None:
        self._settings = settings
        self._create = create
        self._timeout_s = timeout_s
        self._known: set[str] = set()

    def ensure(
        self,
        name: str,
        *,
        like: str,
        room_bytes: int = 0,
        compacted: bool = False,
        partitions: int | None = None,
        replication: int | None = None,
    ) -> None:
        """Return when the topic exists.

        Args:
            like: the topic whose partitions and replication a new one gets.
            room_bytes: how much larger than a record there a record here may be.
            compacted: whether a new topic keeps the last record of each key, and nothing else.
            partitions: of a new topic where `like` does not exist; None: the broker's default.
            replication: the same.

        Raises:
            TopicMissing: it does not exist, and may not be made.
            KafkaUnavailable: Kafka did not answer, or refused to make it.
        """
        if name in self._known:
            return
        with self._admin() as admin:
            if _described(admin, name) is None:
                if not self._create:
                    raise TopicMissing(
                        f"topic {name} does not exist: create it, or set [worker] create_topics"
                    )
                wanted = _wanted(_described(admin, like), partitions, replication)
                self._make(admin, name, like, room_bytes, wanted, compacted=compacted)
        self._known.add(name)

    def missing(self, names: list[str]) -> list[str]:
        """Return those of the topics that do not exist.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        with self._admin() as admin:
            return [name for name in names if _described(admin, name) is None]

    def visible(self, names: Collection[str]) -> list[str]:
        """Return those that exist and that we may see; a forbidden one is no fault.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        if not names:
            return []
        with self._admin() as admin:
            return sorted(set(admin.list_topics()).intersection(names))

    def partitions(self, name: str) -> int:
        """Return how many partitions a topic has; 0 when it does not exist.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        with self._admin() as admin:
            found = _described(admin, name)
        return 0 if found is None else len(found["partitions"])

    def is_compacted(self, name: str) -> bool | None:
        """Return whether a topic keeps the last record of each key; None when Kafka does not say.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        with self._admin() as admin:
            said = topic_setting(admin, name, CLEANUP)
        return None if said is None else COMPACT in said

    def forget(self, name: str) -> None:
        """Ask Kafka again: writing there has failed."""
        self._known.discard(name)

    def _make(
        self,
        admin: Any,
        name: str,
        like: str,
        room_bytes: int,
        wanted: dict[str, Any],
        *,
        compacted: bool,
    ) -> None:
        configs: dict[str, str] = {}
        if room_bytes:
            # Of a topic that does not exist Kafka says nothing: its default.
            configs[_LIMIT] = str(_max_message_bytes(admin, like) + room_bytes)
        if compacted:
            configs[CLEANUP] = COMPACT
        if configs:
            wanted["configs"] = configs
        limit_ms = int(self._timeout_s * 1000)
        with suppress(TopicAlreadyExistsError):  # another worker was quicker
            admin.create_topics({name: wanted}, timeout_ms=limit_ms)
        admin.wait_for_topics([name], timeout_ms=limit_ms)

    @contextmanager
    def _admin(self) -> Iterator[Any]:
        with (
            kafka_faults(self._settings),
            administrator(self._settings, timeout_s=self._timeout_s) as admin,
        ):
            yield admin


def _described(admin: Any, name: str) -> dict[str, Any] | None:
    found: dict[str, Any]
    (found,) = admin.describe_topics([name])
    if found["error_code"] == UnknownTopicOrPartitionError.errno:
        return None
    if found["error_code"]:
        raise for_code(found["error_code"])(name)
    return found


def _wanted(
    source: dict[str, Any] | None, partitions: int | None, replication: int | None
) -> dict[str, Any]:
    """Return the partitions and the replication of a new topic; those left out are the broker's."""
    if source is not None:
        found = source["partitions"]
        partitions, replication = len(found), len(found[0]["replica_nodes"])
    wanted = {"num_partitions": partitions, "replication_factor": replication}
    return {name: number for name, number in wanted.items() if number is not None}


def _max_message_bytes(admin: Any, name: str) -> int:
    said = topic_setting(admin, name, _LIMIT)
    return MAX_MESSAGE_BYTES if said is None else int(said)


def topic_setting(admin: Any, name: str, setting: str) -> str | None:
    """Return a setting of a topic; None when Kafka does not say.

    Args:
        setting: by Kafka's name, as `cleanup.policy`.
    """
    wanted = ConfigResource(ConfigResourceType.TOPIC, name, [setting])
    try:
        found = admin.describe_configs([wanted], config_filter="all")
        return str(found["topic"][name][setting]["value"])
    except (KafkaError, KeyError):
        return None  # a user who may make topics may still not read their settings


def min_insync_replicas(settings: KafkaSection, topic: str, *, timeout_s: float) -> int | None:
    """Return how many replicas must have a record before `acks=all` is answered.

    None when this user may not read it, or there is no such topic.

    Args:
        timeout_s: how long Kafka may take for one answer.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    wanted = ConfigResource(ConfigResourceType.TOPIC, topic, [_MIN_INSYNC])
    with kafka_faults(settings), administrator(settings, timeout_s=timeout_s) as admin:
        found = admin.describe_configs([wanted], config_filter="all")
    try:
        # kafka-python leaves out refused topics.
        return int(found["topic"][topic][_MIN_INSYNC]["value"])
    except KeyError:
        return None
