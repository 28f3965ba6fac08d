"""A member of a group, on librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any

from confluent_kafka import Consumer, KafkaError

from feedback.clock import monotonic_s
from feedback.kafka.administrator import Administrator
from feedback.kafka.confluent.anew import RecordsAnew
from feedback.kafka.confluent.committing import CommittedOffsets
from feedback.kafka.confluent.connection import connection
from feedback.kafka.confluent.faults import ABSENT, READ, fault_from, faults
from feedback.kafka.confluent.former_member import FormerMember
from feedback.kafka.confluent.places import MemberPlaces
from feedback.kafka.confluent.records import record_of
from feedback.kafka.confluent.silent_partitions import SilentPartitions
from feedback.kafka.confluent.standing import ClientStanding, await_broker
from feedback.kafka.confluent.topic_counts import TopicCounts
from feedback.kafka.errors import KafkaFault, PartitionsFailed
from feedback.kafka.member import ANSWER_S, PartitionOwner
from feedback.kafka.values import BrokersAway, Partition
from feedback.logs import EventLog
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

log = EventLog("onceward.kafka")

ASSIGNORS = {"eager": "range,roundrobin", "cooperative": "cooperative-sticky"}
# So much is fetched ahead, of all partitions together.
_AHEAD_KIB = 16_384
# So much is fetched of one partition, then the next one has its turn. Records are handed out in the
# order in which they were fetched: with librdkafka's 1 MiB a partition that has a backlog, as each
# has after an outage, is read to its end before the others. 10 ms from a broker this is 1.6 MB/s.
_TURN_BYTES = 16_384
# Nothing is fetched while so many records of all partitions together wait to be handed out: what
# is written to another partition meanwhile comes behind them. With librdkafka's 100,000 that was
# the whole backlog.
_AHEAD_RECORDS = 500
# Above the time for which librdkafka waits for an answer.
UNREAD_S = ANSWER_S + 2.0
# Events that are no answer of a broker to us.
_PASSED_OVER = ABSENT | {KafkaError._MAX_POLL_EXCEEDED, KafkaError._UNKNOWN_PARTITION}


class ConfluentMember:
    """See `feedback.kafka.member.GroupMember`.

    Args:
        settings: brokers, group and security.
        topics: the topics to subscribe to.
        owner: hears of partitions that come and go, within `poll` and `close`.
        anew: reads the records that confluent-kafka cannot give.
        silent: finds partitions of which librdkafka gives nothing.
        connect: makes an administrator, for the removal of a member that this one was before.
    """

    def __init__(
        self,
        settings: KafkaSection,
        topics: Sequence[str],
        owner: PartitionOwner,
        anew: RecordsAnew,
        silent: SilentPartitions,
        connect: Callable[[], Administrator],
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._anew = anew
        self._silent = silent
        self._wanted: set[Partition] = set()
        self._standing = ClientStanding(settings)
        self._owed: list[KafkaFault] = []
        self._polled: list[Any] = []
        with faults(settings):
            self._consumer = Consumer({**_properties(settings), **self._standing.properties()})
        try:
            await_broker(self._consumer, self._standing, settings, ANSWER_S)
        except BaseException:
            self._consumer.close()
            raise
        self._offsets = CommittedOffsets(settings, self._consumer)
        self._places = MemberPlaces(settings, self._consumer)
        self._counts = TopicCounts(settings)
        self._former = FormerMember(settings, self._consumer, connect)
        if topics:
            with faults(settings):
                self._consumer.subscribe(
                    [*topics],
                    on_assign=self._hear_assigned,
                    on_revoke=self._hear_revoked,
                    on_lost=self._hear_lost,
                )

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records."""
        if self._owed:
            raise self._owed.pop(0)
        self._assign_again()
        self._remove_former()
        self._places.seek_again()
        self._polled = []
        # With an exception of a callback librdkafka's messages are lost, and its positions behind.
        with ExitStack() as lost, faults(self._settings, operation=READ):
            lost.callback(lambda: self._places.go_back(self._places.assigned))
            self._places.rest()
            is_ready = self._places.has_kept
            first = self._consumer.poll(0 if is_ready else timeout_s)
            if first is not None:
                self._polled.append(first)
                if max_records > 1 and not is_ready:
                    # Those that are there already. Meanwhile the first may be taken away.
                    ready = self._consumer.consume(max_records - 1, 0)
                    self._polled += ready
            lost.pop_all()
        # Not where a message that was kept is handed out: that came before an outage, perhaps.
        if any(one.error() is None for one in self._polled):
            self._standing.is_up = True
        self._places.keep(self._polled)
        self._name_silent()
        with closing(self._anew):
            kept = self._places.take_kept(max_records)
            records = [one for message in kept for one in self._taken(message)]
        if self._owed and not records:
            raise self._owed.pop(0)
        return records

    def _assign_again(self) -> None:
        """Assign partitions again that librdkafka has and does not read.

        It asks for the committed offsets of an assignment, and where that fails it never reads
        them: `rd_kafka_assignment_apply_offsets` of librdkafka 2.16.
        """
        if not self._standing.is_steady:
            return
        idle = self._standing.idle_before(monotonic_s() - UNREAD_S)
        unread = self._places.assigned & idle
        if unread:
            log.warning("partitions.assigned_again", partitions=len(unread))
        if self._places.assign_again(unread):
            self._standing.forget_idle()

    def _name_silent(self) -> None:
        """Name the partitions that have more, and of which nothing comes: librdkafka does not."""
        self._wanted |= self._places.assigned - self._places.paused
        if (fetched := self._standing.take_offsets()) is None:
            return
        wanted, self._wanted = self._wanted, set()
        unread = self._places.unread(fetched)
        for place in self._silent.among(unread, wanted):
            where = f"Kafka at {self._settings.bootstrap_servers}"
            said = f"{where} gives no record of {place[0]}-{place[1]} from {unread[place].offset}"
            self._owe(PartitionsFailed(f"{said} on, and has more", {place}))

    def _remove_former(self) -> None:
        if self._standing.is_up and not self._standing.is_steady and not self._places.assigned:
            self._former.remove()

    def _taken(self, message: Any) -> list[Record]:
        """Return the record of a message; an event has none."""
        place = (message.topic(), message.partition())
        error = message.error()
        if error is not None:
            self._hear_event(place, message.offset(), error)
            return []
        if not self._places.may_hand_out(place):
            return []
        try:
            record = record_of(message, self._anew.read)
        except KafkaFault as fault:
            # What is polled and follows it is dropped as well.
            self._places.go_back_to(place, message.offset())
            self._owed.append(fault)
            return []
        self._places.note_read(place, message.offset() + 1)
        return [] if record is None else [record]

    def _hear_event(self, place: Partition, offset: int, error: Any) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._places.note_read(place, offset)
            return
        if error.code() in _PASSED_OVER:
            self._counts.ask_soon()
            return
        fault = fault_from(error, self._settings, operation=READ, topic=place[0])
        of_topic = {one for one in self._places.assigned if one[0] == place[0]}
        failed = of_topic & {place} or of_topic
        if failed and not fault.is_passing:
            self._owe(PartitionsFailed(str(fault), failed).because(fault.fault))
            # librdkafka reads on behind a batch that is corrupt.
            self._places.go_back(failed & {place})
        elif not fault.is_passing:
            self._owed.append(fault)

    def _owe(self, error: PartitionsFailed) -> None:
        # One poll may find many corrupt batches.
        told = {one.partitions for one in self._owed if isinstance(one, PartitionsFailed)}
        if error.partitions not in told:
            self._owed.append(error)

    def is_coordinated(self) -> bool:
        """Whether a broker coordinates the group."""
        return self._standing.is_up

    def is_stable(self) -> bool:
        """Whether the group is stable with this member in it."""
        return self._standing.is_steady

    def why_away(self, *, since_s: float) -> BrokersAway:
        """Return why no connection was made."""
        return self._standing.why_away(since_s=since_s)

    def assigned(self) -> frozenset[Partition]:
        """Return the partitions that are this member's now."""
        return frozenset(self._places.assigned)

    def paused(self) -> frozenset[Partition]:
        """Return those of its partitions that are paused."""
        return frozenset(self._places.paused)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these partitions from the next poll on."""
        self._places.pause(partitions)

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""
        self._places.resume(partitions)

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Read on from these offsets."""
        self._places.seek(offsets)

    def position(self, partition: Partition) -> int:
        """Return the next offset to read."""
        return self._places.position(partition)

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end."""
        return self._places.is_read(partition)

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition."""
        self._offsets.commit(offsets)

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition."""
        return self._offsets.committed(partitions)

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return the partitions of topics."""
        return self._counts.known(topics)

    def topics(self) -> frozenset[str]:
        """Return the names of all topics."""
        with faults(self._settings):
            return frozenset(self._consumer.list_topics(timeout=ANSWER_S).topics)

    def broker_version(self) -> str:
        """Return nothing: librdkafka does not tell it."""
        return ""

    def close(self) -> None:
        """Leave the group."""
        self._counts.close()
        self._former.close()
        try:
            with faults(self._settings):
                self._consumer.close()
        finally:
            self._silent.close()
            self._offsets.close()

    # partitions come and go, within a poll or the closing -----------------------------------------

    def _hear_assigned(self, _: Any, assigned: list[Any]) -> None:
        new = frozenset((one.topic, one.partition) for one in assigned)
        self._places.take(assigned)
        self._standing.forget_idle()
        self._standing.is_steady = self._standing.is_up = True
        self._former.note_joined()
        self._places.pause(self._owner.take(new))

    def _hear_revoked(self, _: Any, revoked: list[Any]) -> None:
        partitions = frozenset((one.topic, one.partition) for one in revoked)
        try:
            again = self._owner.give_up(partitions)
            if again:
                self._owner.given_up(again, self._refusal_of_handing_over(again))
        finally:
            self._drop(partitions, revoked)

    def _refusal_of_handing_over(self, offsets: Mapping[Partition, int]) -> str:
        """Commit for the next owner; return why that failed, in a word."""
        if not self._standing.is_up:
            return "NoCoordinator"  # it would be waited for
        try:
            # In this thread: from another one a commit is answered after this callback's end.
            self._offsets.commit_here(offsets)
        except KafkaFault as error:
            return type(error).__name__
        return ""

    def _hear_lost(self, _: Any, lost: list[Any]) -> None:
        partitions = frozenset((one.topic, one.partition) for one in lost)
        try:
            again = self._owner.give_up(partitions)
            if again:
                self._owner.given_up(again, "lost")
        finally:
            self._drop(partitions, lost)

    def _drop(self, partitions: frozenset[Partition], gone: list[Any]) -> None:
        self._standing.is_steady = False
        # Polled before they were taken away: their next owner reads them, or we do again.
        self._polled = [
            one for one in self._polled if (one.topic(), one.partition()) not in partitions
        ]
        self._places.drop(gone)


def _properties(settings: KafkaSection) -> dict[str, Any]:
    return {
        **connection(settings),
        "group.id": settings.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "check.crcs": True,
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
        "enable.partition.eof": True,
        "session.timeout.ms": int(settings.session_timeout_s * 1000),
        "max.poll.interval.ms": int(
            max(settings.max_poll_interval_s, settings.session_timeout_s) * 1000
        ),
        "heartbeat.interval.ms": min(3000, int(settings.session_timeout_s * 1000 / 3)),
        "partition.assignment.strategy": ASSIGNORS[settings.assignor],
        "socket.timeout.ms": int(ANSWER_S * 1000),
        "queued.max.messages.kbytes": _AHEAD_KIB,
        "queued.min.messages": _AHEAD_RECORDS,
        "fetch.message.max.bytes": _TURN_BYTES,
        # Where so much is fetched, the next fetch is to follow soon.
        "fetch.queue.backoff.ms": 20,
    }
