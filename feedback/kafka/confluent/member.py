"""A member of a group, on librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from feedback.clock import monotonic_s
from feedback.kafka.confluent.anew import RecordsAnew
from feedback.kafka.confluent.connection import connection
from feedback.kafka.confluent.faults import ABSENT, READ, fault_from, faults
from feedback.kafka.confluent.records import record_of
from feedback.kafka.confluent.standing import Standing, await_broker
from feedback.kafka.confluent.topic_counts import TopicCounts
from feedback.kafka.errors import KafkaFault, PartitionsFailed
from feedback.kafka.member import ANSWER_S, PartitionOwner
from feedback.kafka.values import Away, Partition
from feedback.logs import EventLog
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

log = EventLog("onceward.kafka")

Given = TypeVar("Given")
Answer = TypeVar("Answer")

ASSIGNORS = {"eager": "range,roundrobin", "cooperative": "cooperative-sticky"}
# So much is fetched ahead, of all partitions together.
_AHEAD_KIB = 16_384
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
    """

    def __init__(
        self,
        settings: KafkaSection,
        topics: Sequence[str],
        owner: PartitionOwner,
        anew: RecordsAnew,
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._anew = anew
        self._standing = Standing(settings)
        self._assigned: set[Partition] = set()
        self._paused: set[Partition] = set()
        self._next: dict[Partition, int] = {}
        self._seeks: dict[Partition, int] = {}
        # Those that are to be assigned again: nobody knows where they were to begin.
        self._unbegun: set[Partition] = set()
        self._is_cooperative = settings.assignor == "cooperative"
        self._owed: list[KafkaFault] = []
        self._polled: list[Any] = []
        # A commit waits for longer than its callers, and those of one member keep their order.
        self._commits = ThreadPoolExecutor(1, thread_name_prefix="onceward-commit")
        try:
            with faults(settings):
                self._consumer = Consumer(
                    {
                        **connection(settings),
                        **self._standing.properties(),
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
                        "heartbeat.interval.ms": min(
                            3000, int(settings.session_timeout_s * 1000 / 3)
                        ),
                        "partition.assignment.strategy": ASSIGNORS[settings.assignor],
                        "socket.timeout.ms": int(ANSWER_S * 1000),
                        "queued.max.messages.kbytes": _AHEAD_KIB,
                        # Where so much is fetched, the next fetch is to follow soon.
                        "fetch.queue.backoff.ms": 20,
                    }
                )
        except BaseException:
            self._commits.shutdown(wait=False)
            raise
        try:
            await_broker(self._consumer, self._standing, settings, ANSWER_S)
        except BaseException:
            self._commits.shutdown(wait=False)
            self._consumer.close()
            raise
        self._counts = TopicCounts(settings)
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
        self._seek_again()
        self._polled = []
        # With an exception of a callback librdkafka's messages are lost, and its positions behind.
        with ExitStack() as lost, faults(self._settings, operation=READ):
            lost.callback(lambda: self._go_back(self._assigned))
            first = self._consumer.poll(timeout_s)
            if first is not None:
                self._polled.append(first)
                if max_records > 1:
                    # Those that are there already. Meanwhile the first may be taken away.
                    ready = self._consumer.consume(max_records - 1, 0)
                    self._polled += ready
            lost.pop_all()
        with closing(self._anew):
            records = [one for message in self._polled for one in self._taken(message)]
        if self._owed and not records:
            raise self._owed.pop(0)
        return records

    def _assign_again(self) -> None:
        """Assign partitions again that librdkafka has and does not read.

        It asks for the committed offsets of an assignment, and where that fails it never reads
        them: `rd_kafka_assignment_apply_offsets` of librdkafka 2.16.
        """
        unread = self._assigned & self._standing.idle_before(monotonic_s() - UNREAD_S)
        if not self._standing.is_steady:
            unread = set()
        if not unread and not self._unbegun:
            return
        if unread:
            log.warning("partitions.assigned_again", partitions=len(unread))
        self._standing.forget_idle()
        with faults(self._settings, operation=READ):
            wanted = unread | self._unbegun if self._is_cooperative else self._assigned
            self._unbegun.clear()
            again = [TopicPartition(*one, self._next.get(one, OFFSET_STORED)) for one in wanted]
            if self._is_cooperative:
                self._consumer.incremental_unassign(again)
                self._consumer.incremental_assign(again)
            else:
                self._consumer.assign(again)
            self._consumer.pause([TopicPartition(*one) for one in self._paused])

    def _taken(self, message: Any) -> list[Record]:
        """Return the record of a message; an event has none."""
        place = (message.topic(), message.partition())
        error = message.error()
        if error is not None:
            self._hear_event(place, message.offset(), error)
            return []
        # A rebalance, a pause or a seek may have come after it was fetched.
        if place not in self._assigned or self._is_to_go_back(place):
            return []
        if place in self._paused:
            # librdkafka's position is behind it.
            self._seeks[place] = self._next[place] = message.offset()
            return []
        self._standing.is_up = True
        try:
            record = record_of(message, self._anew.read)
        except KafkaFault as error:
            # librdkafka's position is behind it: what is polled and follows it is dropped as well.
            self._seeks[place] = self._next[place] = message.offset()
            self._owed.append(error)
            return []
        self._next[place] = message.offset() + 1
        return [] if record is None else [record]

    def _hear_event(self, place: Partition, offset: int, error: Any) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            if place in self._assigned and not self._is_to_go_back(place):
                self._next[place] = offset
            return
        if error.code() in _PASSED_OVER:
            self._counts.ask_soon()
            return
        fault = fault_from(error, self._settings, operation=READ, topic=place[0])
        of_topic = {one for one in self._assigned if one[0] == place[0]}
        failed = of_topic & {place} or of_topic
        if failed and not fault.is_passing:
            self._owe(PartitionsFailed(str(fault), failed).because(fault.fault))
            # librdkafka reads on behind a batch that is corrupt.
            self._go_back(failed & {place})
        elif not fault.is_passing:
            self._owed.append(fault)

    def _owe(self, error: PartitionsFailed) -> None:
        # One poll may find many corrupt batches.
        told = {one.partitions for one in self._owed if isinstance(one, PartitionsFailed)}
        if error.partitions not in told:
            self._owed.append(error)

    def _go_back(self, places: Collection[Partition]) -> None:
        """Read these again from the last record that was handed out; till then drop the others."""
        for one in places:
            if one not in self._next:
                self._unbegun.add(one)
            elif one not in self._seeks:
                self._seeks[one] = self._next[one]

    def _is_to_go_back(self, place: Partition) -> bool:
        return place in self._seeks or place in self._unbegun

    def is_coordinated(self) -> bool:
        """Whether a broker coordinates the group."""
        return self._standing.is_up

    def is_stable(self) -> bool:
        """Whether the group is stable with this member in it."""
        return self._standing.is_steady

    def why_away(self, *, since_s: float) -> Away:
        """Return why no connection was made."""
        return self._standing.why_away(since_s=since_s)

    def assigned(self) -> frozenset[Partition]:
        """Return the partitions that are this member's now."""
        return frozenset(self._assigned)

    def paused(self) -> frozenset[Partition]:
        """Return those of its partitions that are paused."""
        return frozenset(self._paused)

    def pause(self, partitions: Collection[Partition]) -> None:
        """Return no records of these partitions from the next poll on."""
        new = self._assigned.intersection(partitions) - self._paused
        if new:
            self._consumer.pause([TopicPartition(*one) for one in new])
            self._paused |= new

    def resume(self, partitions: Collection[Partition]) -> None:
        """Return records of these partitions again."""
        again = self._paused.intersection(partitions)
        if again:
            self._consumer.resume([TopicPartition(*one) for one in again])
            self._paused -= again

    def seek(self, offsets: Mapping[Partition, int]) -> None:
        """Read on from these offsets."""
        for one in self._assigned.intersection(offsets):
            self._seeks[one] = self._next[one] = offsets[one]
        self._seek_again()

    def _seek_again(self) -> None:
        """Seek where that was not possible yet: a partition that is new is not being read."""
        for one, offset in list(self._seeks.items()):
            try:
                self._consumer.seek(TopicPartition(*one, offset))
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:
                    raise fault_from(error.args[0], self._settings) from error
            else:
                del self._seeks[one]

    def position(self, partition: Partition) -> int:
        """Return the next offset to read."""
        return self._next.get(partition, -1)

    def is_read(self, partition: Partition) -> bool:
        """Whether a partition was read to its end."""
        if partition not in self._assigned or partition not in self._next:
            return False
        with suppress(KafkaException):
            _, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
            return bool(0 <= end <= self._next[partition])
        return False

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition."""
        self._answer(self._commit, offsets)

    def _answer(self, question: Callable[[Given], Answer], given: Given) -> Answer:
        """Return the answer to a question for which librdkafka may wait longer than is asked."""
        under_way = self._commits.submit(question, given)
        try:
            return under_way.result(ANSWER_S)
        except TimeoutError as error:
            under_way.cancel()
            where = f"Kafka at {self._settings.bootstrap_servers}"
            raise KafkaFault(f"{where} did not answer of committed offsets in time") from error

    def _commit(self, offsets: Mapping[Partition, int]) -> None:
        wanted = [TopicPartition(*one, offset) for one, offset in offsets.items()]
        if not wanted:
            return
        with faults(self._settings, operation=READ):
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
        for one in answers or ():
            if one.error is not None:
                raise fault_from(one.error, self._settings, operation=READ, topic=one.topic)

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition."""
        return self._answer(self._committed, partitions)

    def _committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        asked = [TopicPartition(*one) for one in partitions]
        if not asked:
            return {}
        with faults(self._settings, operation=READ):
            answers = self._consumer.committed(asked, timeout=ANSWER_S)
        for one in answers:
            if one.error is not None:
                raise fault_from(one.error, self._settings, operation=READ, topic=one.topic)
        return {(one.topic, one.partition): max(0, one.offset) for one in answers}

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
        try:
            with faults(self._settings):
                self._consumer.close()
        finally:
            self._commits.shutdown(wait=False, cancel_futures=True)

    # partitions come and go, within a poll or the closing -----------------------------------------

    def _hear_assigned(self, consumer: Any, assigned: list[Any]) -> None:
        new = {(one.topic, one.partition) for one in assigned}
        (consumer.incremental_assign if self._is_cooperative else consumer.assign)(assigned)
        self._assigned = self._assigned | new if self._is_cooperative else new
        self._standing.forget_idle()
        self._standing.is_steady = self._standing.is_up = True
        self.pause(self._owner.take(frozenset(new)))

    def _hear_revoked(self, consumer: Any, revoked: list[Any]) -> None:
        partitions = frozenset((one.topic, one.partition) for one in revoked)
        try:
            again = self._owner.give_up(partitions)
            if again:
                self._owner.given_up(again, self._refusal_of_handing_over(again))
        finally:
            self._drop(consumer, partitions, revoked)

    def _refusal_of_handing_over(self, offsets: Mapping[Partition, int]) -> str:
        """Commit for the next owner; return why that failed, in a word."""
        if not self._standing.is_up:
            return "NoCoordinator"  # it would be waited for
        try:
            # In this thread: from another one a commit is answered after this callback's end.
            self._commit(offsets)
        except KafkaFault as error:
            return type(error).__name__
        return ""

    def _hear_lost(self, consumer: Any, lost: list[Any]) -> None:
        partitions = frozenset((one.topic, one.partition) for one in lost)
        try:
            again = self._owner.give_up(partitions)
            if again:
                self._owner.given_up(again, "lost")
        finally:
            self._drop(consumer, partitions, lost)

    def _drop(self, consumer: Any, partitions: frozenset[Partition], gone: list[Any]) -> None:
        self._standing.is_steady = False
        # Polled before they were taken away: their next owner reads them, or we do again.
        self._polled = [
            one for one in self._polled if (one.topic(), one.partition()) not in partitions
        ]
        # librdkafka keeps a pause beyond the assignment: nobody would end it when they come back.
        self.resume(partitions)
        self._assigned -= partitions
        for one in partitions:
            self._next.pop(one, None)
            self._seeks.pop(one, None)
            self._unbegun.discard(one)
        if self._is_cooperative:
            consumer.incremental_unassign(gone)
        else:
            consumer.unassign()
