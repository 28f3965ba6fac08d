"""A member of a group, on kafka-python.

Facts it depends on (kafka-python 3.0): a consumer belongs to one thread. A poll with everything
paused sleeps its time away, at most 0.1 s. Paused partitions keep their fetched records. A poll
raises the fault of one partition, and names it only in its text. With all brokers gone a poll
brings nothing and raises nothing, and the member's state stays "stable". A deleted topic leaves the
assignment without a word, and is back when it exists again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import IllegalStateError, KafkaError, TopicAuthorizationFailedError
from kafka.structs import MemberState

import feedback.kafka.kafka_python.sockets  # noqa: F401 - mends kafka-python for this process
from feedback.kafka.errors import PartitionsFailed
from feedback.kafka.kafka_python import fetching as kafka_fetching
from feedback.kafka.kafka_python.failures import fault_lost, why_lost
from feedback.kafka.kafka_python.faults import fault_from
from feedback.kafka.kafka_python.membership import SHORTEST_POLL_S, mend
from feedback.kafka.kafka_python.records import record_of
from feedback.kafka.kafka_python.topic_names import names_of_all
from feedback.kafka.member import ANSWER_S, HAND_OVER_S, PartitionOwner
from feedback.kafka.values import BrokersAway, Partition
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

# A cooperative group moves only the partitions that change owners; the others go on meanwhile.
ASSIGNORS: dict[str, list[Any]] = {
    "eager": [RangePartitionAssignor, RoundRobinPartitionAssignor],
    "cooperative": [CooperativeStickyAssignor],
}
READ = "Read"  # the operation on topics for which brokers may refuse us
_ANSWER_MS = int(ANSWER_S * 1000)
# A rebalance on kafka-python's thread may take a partition away between two calls.
_NOT_OURS = (KeyError, AssertionError, IllegalStateError, ValueError)


class KafkaPythonMember:
    """See `feedback.kafka.member.GroupMember`.

    Args:
        settings: brokers, group and security.
        topics: the topics to subscribe to.
        owner: hears of partitions that come and go, in kafka-python's thread.
    """

    def __init__(
        self, settings: KafkaSection, topics: Sequence[str], owner: PartitionOwner
    ) -> None:
        self._settings = settings
        self._owner = owner
        with self._faults():
            self._consumer = KafkaConsumer(
                **settings.reading(),
                group_id=settings.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                allow_auto_create_topics=False,
                session_timeout_ms=int(settings.session_timeout_s * 1000),
                max_poll_interval_ms=int(settings.max_poll_interval_s * 1000),
                partition_assignment_strategy=ASSIGNORS[settings.assignor],
                heartbeat_interval_ms=min(3000, int(settings.session_timeout_s * 1000 / 3)),
                request_timeout_ms=_ANSWER_MS,
                bootstrap_timeout_ms=_ANSWER_MS,
                reconnect_backoff_max_ms=1000,
                metrics_enabled=False,
            )
            mend(self._consumer)
            kafka_fetching.mend(self._consumer)
            if topics:
                listener = _OnAssigned(self._hear_assigned, self._hand_over)
                self._consumer.subscribe(topics, listener=listener)

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records."""
        timeout_ms = int(max(timeout_s, SHORTEST_POLL_S) * 1000)
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
        except KafkaError as error:
            fault = fault_from(error, self._settings, operation=READ)
            failed = frozenset() if error.retriable else self._named_in(error)
            if not failed:
                raise fault from error
            raise PartitionsFailed(str(fault), failed).because(fault.fault) from error
        return [record_of(one) for records in polled.values() for one in records]

    def _named_in(self, error: KafkaError) -> frozenset[Partition]:
        text = str(error)
        # The topic's name is a whole set for one kind of error, and quoted like a partition for the
        # others.
        topics = error.args[0] if isinstance(error, TopicAuthorizationFailedError) else ()
        assigned = self._consumer.assignment()
        return _ours(one for one in assigned if one.topic in topics or str(one) in text)

    def is_coordinated(self) -> bool:
        """Whether a broker coordinates the group."""
        return not self._consumer._coordinator.coordinator_unknown()

    def is_stable(self) -> bool:
        """Whether the group is stable with this member in it."""
        return bool(self._consumer.group_metadata().state is MemberState.STABLE)

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made."""
        net = self._consumer._net
        return BrokersAway(why_lost(net, since_s=since_s) or "", fault_lost(net, since_s=since_s))

    def assigned(self) -> frozenset[Partition]:
        """Return the partitions that are this member's now."""
        return _ours(self._consumer.assignment())

    def paused(self) -> frozenset[Partition]:
        """Return those of its partitions that are paused."""
        return _ours(self._consumer.paused())

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these partitions from the next poll on."""
        self._each(partitions, self._consumer.pause)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""
        self._each(partitions, self._consumer.resume)

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Read on from these offsets."""
        self._each(offsets, lambda one: self._consumer.seek(one, offsets[(*one,)]))

    def position(self, partition: Partition) -> int:
        """Return the next offset to read."""
        with self._faults(), suppress(*_NOT_OURS):
            found = self._consumer.position(TopicPartition(*partition), timeout_ms=1)
            return -1 if found is None else int(found)
        return -1

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end."""
        one = TopicPartition(*partition)
        with self._faults(), suppress(*_NOT_OURS):
            end = self._consumer.highwater(one)
            return end is not None and (self._consumer.position(one, timeout_ms=1) or 0) >= end
        return False

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition."""
        with self._faults():
            self._consumer.commit(_committable(offsets), timeout_ms=_ANSWER_MS)

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition."""
        with self._faults():
            return {
                one: self._consumer.committed(TopicPartition(*one), timeout_ms=_ANSWER_MS) or 0
                for one in partitions
            }

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return the partitions of topics."""
        cluster = self._consumer._cluster
        return {one: len(cluster.partitions_for_topic(one) or ()) for one in topics}

    def topics(self) -> frozenset[str]:
        """Return the names of all topics."""
        with self._faults():
            return names_of_all(self._consumer, limit_s=ANSWER_S)

    def broker_version(self) -> str:
        """Return the newest protocol the broker and the client both speak."""
        return ".".join(map(str, self._consumer.config["api_version"]))

    def close(self) -> None:
        """Leave the group."""
        with self._faults():
            self._consumer.close(autocommit=False, timeout_ms=5000)

    def _hear_assigned(self, assigned: Collection[TopicPartition]) -> None:
        paused = self._owner.take(_ours(assigned))
        if paused:
            self._consumer.pause(*(TopicPartition(*one) for one in paused))

    async def _hand_over(self, revoked: Collection[TopicPartition]) -> None:
        again = self._owner.give_up(_ours(revoked))
        if not again:
            return
        refused = ""
        try:
            await self._consumer._coordinator._commit_offsets_sync_async(
                _committable(again), timeout_ms=int(HAND_OVER_S * 1000)
            )
        except KafkaError as error:
            refused = type(error).__name__
        self._owner.given_up(again, refused)

    def _each(
        self, partitions: Collection[Partition], do: Callable[[TopicPartition], None]
    ) -> None:
        for one in partitions:
            with suppress(*_NOT_OURS):
                do(TopicPartition(*one))

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise fault_from(error, self._settings, operation=READ) from error


def _ours(partitions: Iterable[TopicPartition]) -> frozenset[Partition]:
    return frozenset((one.topic, one.partition) for one in partitions)


def _committable(offsets: Mapping[Partition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
        for partition, offset in offsets.items()
    }


class _OnAssigned(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Receives new partitions on kafka-python's own thread, before any of their records is read."""

    def __init__(
        self,
        hear: Callable[[Collection[TopicPartition]], None],
        hear_revoked: Callable[[Collection[TopicPartition]], Awaitable[None]],
    ) -> None:
        self._hear = hear
        self._hear_revoked = hear_revoked

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Hand the partitions over: their records are committed before they run, or dropped."""
        await self._hear_revoked(revoked)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Hand the new partitions over, at once: a slow listener costs the membership."""
        self._hear(assigned)
