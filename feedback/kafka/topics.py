"""Makes the topics beside a user's topic: its dead letters, its retries.

They get the partitions and the replication of their source, where they are missing; or they are
expected to exist. A topic that a user makes beforehand is taken as it is.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager

from feedback.errors import KafkaUnavailable
from feedback.kafka.admin import administrator
from feedback.kafka.administrator import Administrator, NewTopic, TopicDescription
from feedback.kafka.errors import KafkaFault, TopicAbsent, TopicExists
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
                source = _described(admin, like)
                if source is not None:
                    partitions, replication = len(source.partitions), source.replicas
                configs = _configs(admin, like, room_bytes, compacted=compacted)
                refused = admin.make({name: NewTopic(partitions, replication, configs)})
                # Where it exists by now another worker was quicker.
                if name in refused and not isinstance(refused[name], TopicExists):
                    raise refused[name]
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
            # By name: a cluster may have thousands, and a list of all takes long to read.
            found = admin.describe(names)
        return sorted(name for name, one in found.items() if _is_there(one))

    def partitions(self, name: str) -> int:
        """Return how many partitions a topic has; 0 when it does not exist.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        with self._admin() as admin:
            found = _described(admin, name)
        return 0 if found is None else len(found.partitions)

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

    def _admin(self) -> AbstractContextManager[Administrator]:
        return administrator(self._settings, timeout_s=self._timeout_s)


def _described(admin: Administrator, name: str) -> TopicDescription | None:
    found = admin.describe([name])[name]
    if isinstance(found, TopicDescription):
        return found
    if isinstance(found, TopicAbsent):
        return None
    raise found


def _is_there(found: TopicDescription | KafkaFault) -> bool:
    if isinstance(found, KafkaFault):
        # Of one whose leader is being chosen.
        return found.is_passing and not isinstance(found, TopicAbsent)
    return True


def _configs(
    admin: Administrator, like: str, room_bytes: int, *, compacted: bool
) -> dict[str, str]:
    configs: dict[str, str] = {}
    if room_bytes:
        # Of a topic that does not exist Kafka says nothing: its default.
        said = topic_setting(admin, like, _LIMIT)
        configs[_LIMIT] = str((MAX_MESSAGE_BYTES if said is None else int(said)) + room_bytes)
    if compacted:
        configs[CLEANUP] = COMPACT
    return configs


def topic_setting(admin: Administrator, name: str, setting: str) -> str | None:
    """Return a setting of a topic; None when Kafka does not say.

    Args:
        setting: by Kafka's name, as `cleanup.policy`.
    """
    try:
        return admin.configs([name], [setting])[name][setting]
    except (KafkaFault, KeyError):
        return None  # a user who may make topics may still not read their settings


def min_insync_replicas(settings: KafkaSection, topic: str, *, timeout_s: float) -> int | None:
    """Return how many replicas must have a record before `acks=all` is answered.

    None when this user may not read it, or there is no such topic.

    Args:
        timeout_s: how long Kafka may take for one answer.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    with administrator(settings, timeout_s=timeout_s) as admin:
        found = admin.configs([topic], [_MIN_INSYNC])
    said = found.get(topic, {}).get(_MIN_INSYNC)
    return None if said is None else int(said)
