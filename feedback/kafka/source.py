"""Reads records as a member of a consumer group, and commits their offsets.

Facts it depends on (kafka-python 3.0): a consumer belongs to one thread. A poll with everything
paused sleeps its time away, at most 0.1 s. Paused partitions keep their fetched records. A poll
raises the fault of one partition, and names it only in its text. With all brokers gone a poll
brings nothing and raises nothing. A deleted topic leaves the assignment without a word, and is back
when it exists again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import IllegalStateError, KafkaError, TopicAuthorizationFailedError
from kafka.structs import MemberState

import feedback.kafka.kafka_python.sockets  # noqa: F401 - mends kafka-python for this process
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python import fetching as kafka_fetching
from feedback.kafka.kafka_python.failures import fault_lost, why_lost
from feedback.kafka.kafka_python.faults import Unavailable, unavailable
from feedback.kafka.kafka_python.membership import SHORTEST_POLL_S, mend
from feedback.kafka.kafka_python.records import record_of
from feedback.kafka.partition_quarantine import SetAside
from feedback.logs import EventLog
from feedback.observer import Observer, observed
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

log = EventLog("onceward.kafka")

Partition = tuple[str, int]

# A cooperative group moves only the partitions that change owners; the others go on meanwhile.
ASSIGNORS: dict[str, list[Any]] = {
    "eager": [RangePartitionAssignor, RoundRobinPartitionAssignor],
    "cooperative": [CooperativeStickyAssignor],
}
REQUEST_TIMEOUT_MS = 10_000
READ = "Read"  # the operation on topics for which brokers may refuse us
# Finding the group's coordinator takes a fraction of a second where a broker answers.
COORDINATOR_LIMIT_S = 3.0
# Less than a session: a member that delays a rebalance longer is removed from the group.
HAND_OVER_MS = 3_000
# A rebalance on kafka-python's thread may take a partition away between two calls.
NOT_OURS = (KeyError, AssertionError, IllegalStateError, ValueError)


Unclaimed = Callable[[Collection[Partition]], Mapping[Partition, int]]


def nothing_unclaimed(partitions: Collection[Partition]) -> Mapping[Partition, int]:
    """Let the next owner go on from the committed offset."""
    return {}


class CommitFailed(KafkaUnavailable):
    """A commit was refused, or its outcome is unknown: read the committed offset."""


class KafkaSource:
    """Reads topics as a member of a group. Belongs to one thread.

    Args:
        settings: brokers, group and security.
        topics: the topics to subscribe to.
        observers: receive polls and commits.

    Attributes:
        is_away: no broker answered at the last poll.
        is_joined: the group was stable with this member in it at the last poll.
        owned: the partitions that this member had then; a new set each time.
        unclaimed: called with partitions that are taken away, in kafka-python's thread; returns the
            offsets from which the next owner has to read them again.
    """

    def __init__(
        self, settings: KafkaSection, topics: Sequence[str], observers: Sequence[Observer] = ()
    ) -> None:
        self._observers = observers
        self.is_joined = False
        self.owned: frozenset[Partition] = frozenset()
        self._settings = settings
        self._is_paused = False
        self._left: frozenset[str] = frozenset()
        self._topics = frozenset(topics)
        self._is_member = False
        self._gone: set[str] = set()
        self._partitions: dict[str, int] = {}
        self._aside = SetAside()
        self._refusals: tuple[str, ...] = ()
        self._refused: dict[str, str] = {}
        self._revoked: set[Partition] = set()
        self._committed: dict[Partition, int] = {}
        self.is_away = False
        self.unclaimed: Unclaimed = nothing_unclaimed
        self._coordinated_s = monotonic_s()
        try:
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
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                bootstrap_timeout_ms=REQUEST_TIMEOUT_MS,
                reconnect_backoff_max_ms=1000,
                metrics_enabled=False,
            )
            mend(self._consumer)
            kafka_fetching.mend(self._consumer)
            if topics:
                listener = _OnAssigned(self._stay_paused, self._hand_over)
                self._consumer.subscribe(topics, listener=listener)
        except KafkaError as error:
            raise self._unavailable(error) from error

    def missing(self, topics: Sequence[str]) -> list[str]:
        """Return those of the topics that do not exist.

        Raises:
            KafkaUnavailable: no broker answered.
        """
        try:
            known = self._consumer.topics()
        except KafkaError as error:
            raise self._unavailable(error) from error
        return [topic for topic in topics if topic not in known]

    def broker_version(self) -> str:
        """Return the newest protocol the broker and the client both speak."""
        return ".".join(map(str, self._consumer.config["api_version"]))

    @property
    def refusals(self) -> tuple[str, ...]:
        """The faults of security that last, in sentences; for any thread."""
        return self._refusals

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records, in offset order within each partition.

        Faults of single partitions are logged, and the others are read.

        Raises:
            KafkaUnavailable: the broker refused; polling again is right.
        """
        for one in self._observers:
            one.begins("poll")
        try:
            return self._poll(timeout_s, max_records)
        finally:
            # With all brokers gone the member's state stays "stable".
            state = self._consumer.group_metadata().state
            self.is_joined = not self.is_away and state is MemberState.STABLE
            self.owned = frozenset(self._consumer.assignment())
            self._refusals = tuple(sorted({*self._aside.refusals, *self._refused.values()}))

    def _poll(self, timeout_s: float, max_records: int) -> list[Record]:
        timeout_ms = int(max(timeout_s, SHORTEST_POLL_S) * 1000)
        self._try_again()
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
        except KafkaError as error:
            if self._set_aside(error):
                return []
            self.is_away = True
            raise self._note("poll", self._unavailable(error)) from error
        self._refused.pop("poll", None)
        self._require_coordinator(bool(polled))
        self._aside.note_polled([(*one,) for one in polled], now_s=monotonic_s())
        self._note_gone()
        return [record_of(one) for records in polled.values() for one in records]

    def _require_coordinator(self, has_records: bool) -> None:
        """Raise when no broker is there: a poll does not report that, it only finds no records."""
        if has_records or not self._consumer._coordinator.coordinator_unknown():
            self._coordinated_s = monotonic_s()
            self.is_away = False
        elif self.is_away or monotonic_s() - self._coordinated_s > COORDINATOR_LIMIT_S:
            self.is_away = True
            net, since_s = self._consumer._net, self._coordinated_s
            reason = why_lost(net, since_s=since_s)
            detail = "" if reason is None else f": {reason}"
            raise KafkaUnavailable(
                f"Kafka at {self._settings.bootstrap_servers}: no broker coordinates the "
                f"group{detail}"
            ).because(fault_lost(net, since_s=since_s))

    def _set_aside(self, error: KafkaError) -> bool:
        """Whether the error is about single partitions: they are left out for a while."""
        if error.retriable:
            return False
        text = str(error)
        # The topic's name is a whole set for one kind of error, and quoted like a partition for the
        # others.
        topics = error.args[0] if isinstance(error, TopicAuthorizationFailedError) else ()
        assigned = self._consumer.assignment()
        failed = [one for one in assigned if one.topic in topics or str(one) in text]
        if not failed:
            return False
        self._aside.keep(self.assigned())
        places = [(*one,) for one in failed]
        self._aside.fail(places, self._unavailable(error), now_s=monotonic_s())
        self._consumer.pause(*failed)
        return True

    def _try_again(self) -> None:
        for partition in self._aside.due(monotonic_s()):
            if not self._is_paused and partition[0] not in self._left:
                with suppress(*NOT_OURS):
                    self._consumer.resume(TopicPartition(*partition))

    def _note_gone(self) -> None:
        """Log topics that were deleted, are there again, or have grown; by the current metadata."""
        self._is_member = self._is_member or bool(self._consumer.assignment())
        if not self._is_member:
            return  # and has no topics yet
        cluster = self._consumer._cluster
        known = {one: len(cluster.partitions_for_topic(one) or ()) for one in self._topics}
        gone = {topic for topic, partitions in known.items() if not partitions}
        for topic, partitions in known.items():
            if 0 < self._partitions.get(topic, partitions) < partitions:
                log.warning("topic.grew", topic=topic, partitions=partitions)
        for topic in gone - self._gone:
            log.error("topic.gone", topic=topic)
        for topic in self._gone - gone:
            log.info("topic.back", topic=topic)
        self._gone = gone
        self._partitions = known

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition, and return when it is applied.

        Raises:
            CommitFailed: it was refused or its outcome is unknown.
        """
        with observed(self._observers, "commit"):
            try:
                self._consumer.commit(_committable(offsets), timeout_ms=REQUEST_TIMEOUT_MS)
            except KafkaError as error:
                failed = unavailable(CommitFailed, error, self._settings, operation=READ)
                raise self._note("commit", failed) from error
        self._refused.pop("commit", None)
        self._committed |= offsets

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition; 0 where there is none.

        Raises:
            KafkaUnavailable: no broker answered.
        """
        found: dict[Partition, int] = {}
        try:
            for partition in partitions:
                offset = self._consumer.committed(
                    TopicPartition(*partition), timeout_ms=REQUEST_TIMEOUT_MS
                )
                found[partition] = offset or 0
        except KafkaError as error:
            raise self._unavailable(error) from error
        return found

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        """Read these partitions again from these offsets, if they are still ours."""
        for partition, offset in offsets.items():
            with suppress(*NOT_OURS):
                self._consumer.seek(TopicPartition(*partition), offset)

    def pause(self) -> None:
        """Stop fetching, and stay a member of the group."""
        self._is_paused = True
        for partition in self._consumer.assignment():
            with suppress(*NOT_OURS):
                self._consumer.pause(partition)

    def resume(self) -> None:
        """Fetch again, but for partitions that are left out."""
        self._is_paused = False
        for partition in self._consumer.paused():
            if (*partition,) not in self._aside.out and partition.topic not in self._left:
                with suppress(*NOT_OURS):
                    self._consumer.resume(partition)

    def leave(self, topics: frozenset[str]) -> None:
        """Fetch nothing of these topics from now on, even after `resume`; stay in the group.

        Topics that are not named again are fetched from the next `resume` on.
        """
        if topics == self._left:
            return
        self._left = topics
        for partition in self._consumer.assignment():
            if partition.topic in topics:
                with suppress(*NOT_OURS):
                    self._consumer.pause(partition)

    def hold(self, partitions: Collection[Partition]) -> None:
        """Stop fetching these partitions and fetch all others, but for those that are left out."""
        paused = self._consumer.paused()
        for one in self._consumer.assignment():
            is_held = (*one,) in partitions
            with suppress(*NOT_OURS):
                if is_held and one not in paused:
                    self._consumer.pause(one)
                elif not is_held and one in paused and (*one,) not in self._aside.out:
                    self._consumer.resume(one)

    def take_revoked(self) -> set[Partition]:
        """Return the partitions that were taken away since the last call, back by now or not."""
        revoked: set[Partition] = set()
        while self._revoked:
            revoked.add(self._revoked.pop())
        return revoked

    async def _hand_over(self, revoked: Collection[TopicPartition]) -> None:
        partitions = [(*one,) for one in revoked]
        self._revoked.update(partitions)
        again = self.unclaimed(partitions)
        if not again:
            return
        try:
            await self._consumer._coordinator._commit_offsets_sync_async(
                _committable(again), timeout_ms=HAND_OVER_MS
            )
            records = sum(max(0, self._committed.get(one, 0) - again[one]) for one in again)
            log.info("partitions.handed_over", partitions=len(again), read_again=records)
        except KafkaError as error:
            # They were lost, not handed over: the next owner goes on from the committed offset.
            log.warning("partitions.lost", reason=type(error).__name__, not_rewound=len(again))

    def _stay_paused(self, assigned: Collection[TopicPartition]) -> None:
        still = [one for one in assigned if self._is_paused or one.topic in self._left]
        if still:
            self._consumer.pause(*still)

    def assigned(self) -> list[Partition]:
        """Return the partitions that are ours now."""
        return sorted((one.topic, one.partition) for one in self._consumer.assignment())

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end, by the last answer of its leader."""
        one = TopicPartition(*partition)
        with suppress(*NOT_OURS):
            end = self._consumer.highwater(one)
            return end is not None and (self._consumer.position(one, timeout_ms=1) or 0) >= end
        return False

    def is_stable(self) -> bool:
        """Whether the group is stable with this member in it, as of the last poll."""
        # With all brokers gone the member's state stays "stable".
        return not self.is_away and self._consumer.group_metadata().state is MemberState.STABLE

    def position(self, partition: Partition) -> int:
        """Return the next offset to read.

        It is behind records that compaction removed, and behind offsets without a record; -1 where
        it is not known, or the partition is not ours.
        """
        try:
            found = self._consumer.position(TopicPartition(*partition), timeout_ms=1)
        except NOT_OURS:
            return -1
        return -1 if found is None else int(found)

    def close(self) -> None:
        """Leave the group, so that the others take over at once.

        Raises:
            KafkaUnavailable: the group could not be reached.
        """
        try:
            self._consumer.close(autocommit=False, timeout_ms=5000)
        except KafkaError as error:
            raise self._unavailable(error) from error

    def _note(self, call: str, error: Unavailable) -> Unavailable:
        if error.fault is not None:
            self._refused[call] = str(error)
        return error

    def _unavailable(self, error: KafkaError) -> KafkaUnavailable:
        return unavailable(KafkaUnavailable, error, self._settings, operation=READ)


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
