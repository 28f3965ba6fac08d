"""Questions about topics, their offsets, and the offsets that groups have committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from feedback.clock import monotonic_s
from feedback.errors import NotAvailable, SecurityKind
from feedback.kafka.admin import administrator
from feedback.kafka.administrator import Administrator, OffsetMark, TopicDescription
from feedback.kafka.errors import GroupRefused, KafkaFault, TopicAbsent, TopicRefused
from feedback.kafka.values import Partition
from feedback.security import KAFKA, fault
from feedback.settings.settings import KafkaSection

TIMEOUT_MS = 30_000
PAUSE_S = 0.2

T = TypeVar("T")


class NoSuchTopic(NotAvailable):
    """A topic does not exist.

    Args:
        topic: its name.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic} does not exist")
        self.topic = topic


class KafkaQuestions:
    """Asks the brokers; asks again while they choose a leader or a coordinator.

    Every question may raise `KafkaFault`: `asking` says more of it.

    Args:
        admin: connected.
    """

    def __init__(self, admin: Administrator) -> None:
        self._admin = admin

    def cluster_id(self) -> str:
        """Return the id of the cluster; empty where it has none."""
        return _patiently(self._admin.cluster_id)

    def topics(self) -> set[str]:
        """Return the names of all topics that this user may see."""
        return set(self._admin.topics())

    def describe(
        self, names: Iterable[str], *, if_there: Collection[str] = ()
    ) -> list[TopicDescription]:
        """Return the descriptions of topics, by name.

        Args:
            if_there: further topics; those that do not exist are left out.

        Raises:
            NoSuchTopic: one of `names` does not exist.
            NotAvailable: this user may not read one of them.
        """
        wanted = set(names)
        found = self._admin.describe(sorted(wanted.union(if_there)))
        absent = {one for one in found.keys() - wanted if isinstance(found[one], TopicAbsent)}
        return [_described(topic, one) for topic, one in found.items() if topic not in absent]

    def configs(self, topics: Iterable[str], name: str) -> dict[str, str]:
        """Return a setting of each topic; a topic whose settings the user may not see is absent."""
        asked = sorted(topics)
        answer = _patiently(lambda: self._admin.configs(asked, [name]))
        return {topic: configs[name] for topic, configs in answer.items() if name in configs}

    def begins(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset of the first record that each partition still has."""
        return self._offsets(partitions, OffsetMark.BEGIN)

    def ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset after the last record of each partition, open transactions included."""
        return self._offsets(partitions, OffsetMark.END)

    def committed_ends(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the offset of each partition before which all transactions have ended."""
        return self._offsets(partitions, OffsetMark.COMMITTED_END)

    def at_time(self, partitions: Collection[Partition], epoch_ms: int) -> dict[Partition, int]:
        """Return the offset of the first record of each partition that is not before a time; -1
        where no record is so late."""
        return _patiently(lambda: self._admin.offsets_at(partitions, epoch_ms))

    def group_offsets(
        self, asked: Mapping[str, Collection[Partition] | None]
    ) -> dict[Partition, int]:
        """Return the offsets that groups have committed; see `Administrator`."""
        return _patiently(lambda: self._admin.group_offsets(asked))

    def _offsets(self, partitions: Collection[Partition], mark: OffsetMark) -> dict[Partition, int]:
        return _patiently(lambda: self._admin.offsets(partitions, mark))


@contextmanager
def asking(settings: KafkaSection) -> Iterator[KafkaQuestions]:
    """Yield the questions on one connection, which is closed at the end.

    Raises:
        NotAvailable: Kafka is away, or this user may not ask about a topic or the group.
    """
    with administrator(settings, timeout_s=TIMEOUT_MS / 1000) as admin:
        try:
            yield KafkaQuestions(admin)
        except TopicRefused as error:
            raise _no_right(settings, error, "Describe and Read on the topics") from error
        except GroupRefused as error:
            raise _no_right(settings, error, "Describe on the group") from error


def committed_topics(settings: KafkaSection) -> set[str]:
    """Return the topics of the group's committed offsets, as far as this user may see them.

    Raises:
        KafkaFault: Kafka did not answer, or this user may not ask about the group.
    """
    try:
        with administrator(settings, timeout_s=TIMEOUT_MS / 1000) as admin:
            offsets = KafkaQuestions(admin).group_offsets({settings.group: None})
    except GroupRefused as error:
        more = f"allow it the group {settings.group}, with Describe"
        why = fault(SecurityKind.RIGHT, KAFKA, error.words, more=more)
        raise GroupRefused(f"the topics that the group reads: {why.said}").because(why) from error
    return {topic for topic, _ in offsets}


def _described(name: str, found: TopicDescription | KafkaFault) -> TopicDescription:
    if isinstance(found, TopicDescription):
        return found
    if isinstance(found, TopicAbsent):
        raise NoSuchTopic(name) from found
    if isinstance(found, TopicRefused):
        raise NotAvailable(
            f"topic {name} may not be read: it needs the rights Describe and Read for this user"
        ) from found
    raise found


def _patiently(ask: Callable[[], T]) -> T:
    deadline_s = monotonic_s() + TIMEOUT_MS / 1000
    while True:
        try:
            return ask()
        except KafkaFault as error:
            if not error.is_passing or monotonic_s() >= deadline_s:
                raise
        time.sleep(PAUSE_S)


def _no_right(settings: KafkaSection, error: KafkaFault, right: str) -> NotAvailable:
    words = error.words.rstrip(":")
    said = f"Kafka at {settings.bootstrap_servers} refuses: this user needs {right} ({words})"
    return NotAvailable(said).because(error.fault)
