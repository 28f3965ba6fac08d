"""Questions and requests about topics and groups, in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from feedback.kafka.administrator import NewTopic, OffsetMark, TopicDescription
from feedback.kafka.errors import KafkaFault
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.faults import said, topic_refused
from feedback.kafka.memory.log import MemoryLog
from feedback.kafka.memory.rights import TOPIC_OPERATIONS, GuardedKind
from feedback.kafka.record_limits import is_legal
from feedback.kafka.values import Partition

AnswerT = TypeVar("AnswerT")

_DESCRIBE, _DELETE, _READ = "Describe", "Delete", "Read"
_CREATE, _CONFIGS = "CREATE", "DESCRIBE_CONFIGS"


class MemoryAdministrator:
    """See `feedback.kafka.administrator.Administrator`.

    Args:
        broker: the broker of this address.
        timeout_s: how long Kafka may take for the connection, and for one answer.
    """

    def __init__(self, broker: MemoryBroker, timeout_s: float) -> None:
        self._broker = broker
        self._limit_s = timeout_s
        broker.ask("connect", lambda: None, limit_s=timeout_s)

    def _asked(
        self, call: str, question: Callable[[], AnswerT], *, changes: bool = False
    ) -> AnswerT:
        return self._broker.ask(call, question, limit_s=self._limit_s, changes=changes)

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        return self._asked("cluster_id", lambda: self._broker.cluster_id)

    def topics(self) -> frozenset[str]:
        """Return the names of all topics that this user may see."""
        return self._asked("topics", lambda: frozenset(self._broker.counts([*self._broker.topics])))

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaFault]:
        """Return the description of each topic, or why Kafka does not give it."""
        if not names:
            return {}
        return self._asked("describe", lambda: {one: self._described(one) for one in names})

    def _described(self, name: str) -> TopicDescription | KafkaFault:
        if not is_legal(name):
            return said(KafkaFault, self._broker.address, f"InvalidTopicError {name}")
        try:
            found = self._broker.known(name, _DESCRIBE)
        except KafkaFault as error:
            return error
        return TopicDescription(
            name=name,
            topic_id=found.topic_id,
            partitions=tuple(range(len(found.logs))),
            replicas=found.replicas,
            rights=self._broker.rights.of(GuardedKind.TOPIC, name) & TOPIC_OPERATIONS,
        )

    def configs(self, topics: Collection[str], names: Collection[str]) -> dict[str, dict[str, str]]:
        """Return settings of topics."""

        def answer() -> dict[str, dict[str, str]]:
            return {
                topic: {one: given[one] for one in names if one in given}
                for topic in topics
                if topic in self._broker.topics
                and self._broker.rights.may(_CONFIGS, GuardedKind.TOPIC, topic)
                for given in (self._broker.topics[topic].settings,)
            }

        return self._asked("configs", answer) if topics else {}

    def make(
        self, topics: Mapping[str, NewTopic], *, only_rehearse: bool = False
    ) -> dict[str, KafkaFault]:
        """Make topics; return the refusals when brokers know the others."""

        def answer() -> dict[str, KafkaFault]:
            made = {name: self._made(name, one, only_rehearse) for name, one in topics.items()}
            return {name: why for name, why in made.items() if why is not None}

        return self._asked("make", answer, changes=True)

    def _made(self, name: str, wanted: NewTopic, only_rehearse: bool) -> KafkaFault | None:
        rights = self._broker.rights
        # A right is judged before anything else.
        if not (
            rights.may(_CREATE, GuardedKind.CLUSTER) or rights.may(_CREATE, GuardedKind.TOPIC, name)
        ):
            return topic_refused(self._broker.address, name, "Create")
        try:
            self._broker.create(
                name,
                partitions=wanted.partitions,
                replicas=wanted.replicas,
                configs=wanted.configs,
                only_rehearse=only_rehearse,
            )
        except KafkaFault as error:
            return error
        return None

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics."""

        def answer() -> None:
            refused: list[KafkaFault] = []
            for one in names:
                try:
                    self._broker.known(one, _DELETE)
                    self._broker.drop(one)
                except KafkaFault as error:
                    refused.append(error)
            if refused:
                raise refused[0]

        self._asked("delete_topics", answer, changes=True)

    def groups(self) -> frozenset[str]:
        """Return the names of all groups that this user may see."""
        return self._asked(
            "groups",
            lambda: frozenset(
                name
                for name in self._broker.groups()
                if self._broker.rights.may("DESCRIBE", GuardedKind.GROUP, name)
            ),
        )

    def delete_groups(self, names: Collection[str]) -> None:
        """Delete groups without members."""

        def answer() -> None:
            kept = [one for one in names if self._broker.group(one, _DELETE).has_members]
            for one in {*names} - {*kept}:
                self._broker.forget_group(one)
            if kept:
                raise said(KafkaFault, self._broker.address, f"NonEmptyGroupError {kept[0]}")

        self._asked("delete_groups", answer, changes=True)

    def remove_member(self, group: str, member_id: str) -> None:
        """Remove a member of a group, as if it had left."""
        self._asked(
            "remove_member",
            lambda: self._broker.group(group, _READ).remove(member_id),
            changes=True,
        )

    def offsets(self, partitions: Collection[Partition], mark: OffsetMark) -> dict[Partition, int]:
        """Return the offset of each partition at a mark."""
        return self._offsets("offsets", partitions, lambda log: _at(log, mark))

    def offsets_at(self, partitions: Collection[Partition], epoch_ms: int) -> dict[Partition, int]:
        """Return the offset of the first record that is not before a time."""
        return self._offsets("offsets_at", partitions, lambda log: log.offset_at(epoch_ms))

    def _offsets(
        self, call: str, partitions: Collection[Partition], of: Callable[[MemoryLog], int]
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        return self._asked(
            call, lambda: {one: of(self._broker.log(one, _DESCRIBE)) for one in partitions}
        )

    def group_offsets(
        self, asked: Mapping[str, Collection[Partition] | None]
    ) -> dict[Partition, int]:
        """Return the offsets that groups have committed."""

        def answer() -> dict[Partition, int]:
            found: dict[Partition, int] = {}
            for name, partitions in asked.items():
                if partitions is None or partitions:
                    known = self._broker.group(name, _DESCRIBE).offsets
                    wanted = known if partitions is None else known.keys() & {*partitions}
                    seen = self._broker.counts({topic for topic, _ in wanted})
                    found |= {one: known[one] for one in wanted if one[0] in seen}
            return found

        return self._asked("group_offsets", answer)

    def close(self) -> None:
        """Close the connection."""


def _at(log: MemoryLog, mark: OffsetMark) -> int:
    match mark:
        case OffsetMark.BEGIN:
            return log.begin
        case OffsetMark.END:
            return log.end
        case OffsetMark.COMMITTED_END:
            return log.committed_end
