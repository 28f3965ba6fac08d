"""The thread that reads Kafka: poll, ACCEPTED, commit, buffer (docs: How it works).

Nothing leaves this thread before its offset is committed. If the process dies
- after the poll: nothing happened, Kafka redelivers;
- after the wait record, where one is wanted (`consumer.features.waits`): the same, and who reads it
  again writes it again;
- after ACCEPTED is sent, whose answer is read after the commit: the same, the status names a dead
  worker and reads as LOST. Only a Redis that has just restarted, and does not know the script, has
  not written it then;
- after the commit: the request is LOST, nobody claimed it, a resend is safe; one with a wait record
  goes on at a peer.

While the buffer is full its partitions are paused and polled all the same, so that a handler of
ten minutes costs no group membership. So are those of a topic that is paused, or of which as many
as may wait for their keys; the others are read on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery, receive
from consumer.handlers.order_keys import lane_of
from consumer.intake.before_commit import BeforeCommit
from consumer.intake.buffer import Received
from consumer.intake.context import IntakeContext
from consumer.intake.kafka_thread import KafkaThread
from consumer.intake.unsure import UnsureRecords
from consumer.status import status_messages
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.errors import TopicAbsent, TopicRefused
from feedback.kafka.source import CommitFailed, KafkaSource
from feedback.kafka.values import Partition, Place
from feedback.logs import EventLog
from feedback.records.envelope import Record
from feedback.statuses import Refused

log = EventLog("onceward.intake")

POLL_S = 0.25
FULL_WAIT_S = 0.25
MAX_RECORDS = 500
FEW_RECORDS = 16
AWAY_PAUSE_S = 1.0
DROPPED_PAUSE_S = 0.2


class Intake(KafkaThread):
    """Feeds the buffer from Kafka until it is told to stop.

    Args:
        context: its worker.
        handlers: those whose topics are read.
        open_source: makes the `KafkaSource`; called in this thread.
        before_commit: steps between a poll and its commit, in their order.
        gathers: whether more is read at a time than the buffer holds: its topics collapse, and
            their requests go from the buffer to their keys at once.
    """

    def __init__(
        self,
        context: IntakeContext,
        handlers: Iterable[Handler],
        *,
        open_source: Callable[[], KafkaSource],
        before_commit: Sequence[BeforeCommit] = (),
        name: str = "intake",
        gathers: bool = False,
    ) -> None:
        super().__init__(context, name, away="kafka", open_source=open_source)
        self._before_commit = before_commit
        self._full = context.full
        self._gathers = gathers
        self._stays = False
        self._settings = context.settings
        self._worker_id = context.worker_id
        self._handlers = {handler.topic: handler for handler in handlers}
        self._status_writer = context.status_writer
        self._buffer = context.buffer
        self._may_take = context.may_take
        self._uncommitted: set[Partition] = set()
        self._unsure = UnsureRecords()
        self._asks_at_s = 0.0
        self._taken = 0
        self._taken_s = 0.0

    def leave(self) -> None:
        """Stop reading and leave the group; returns at once, see `has_left`."""
        super().leave()
        self._buffer.wake()

    def _turn(self, source: KafkaSource) -> None:
        self._give_back(source)
        if self._stopping.is_set():
            return  # Kafka may have been slow to answer that
        try:
            if not self._wait_for_room():
                # Nobody took anything for a while: stay in the group without fetching.
                source.leave(self._unread)
                source.pause()
                records = source.poll(0, max_records=1)
                self._unsure.part(source.take_revoked(), source.owned)
                self._take(source, records)
                return
            if self._stopping.is_set():
                return  # the room is that of requests which were given up
            self._space_out(source.spacing_s)
            # In this order: a topic that is found to have room for its keys now adds at most one
            # buffer, even if the buffer is emptied meanwhile.
            most = self._most
            source.leave(self._unread)
            source.resume()
            records = source.poll(POLL_S, max_records=most)
            self._unsure.part(source.take_revoked(), source.owned)
            # Records may be read without the right to commit them. A partition that is given up is
            # its next owner's to commit: nothing here would show that the right is back.
            self._uncommitted &= source.owned
            if not self._uncommitted:
                self._note_kafka(None)
        except KafkaUnavailable as error:
            self._note_kafka(error)
            self._stopping.wait(AWAY_PAUSE_S)
            return
        if not self._stopping.is_set():
            # Else nobody heard of them yet: uncommitted, they are the next owner's.
            self._take(source, records)

    @property
    def _most(self) -> int:
        is_wide = self._gathers and not self._stays
        return MAX_RECORDS if is_wide else min(self._buffer.room, MAX_RECORDS)

    @property
    def _unread(self) -> frozenset[str]:
        return self._gates.unread | self._full()

    def _may_take_now(self) -> bool:
        if not self._may_take():
            self._stopping.wait(FULL_WAIT_S)
            return False
        return True

    def _wait_for_room(self) -> bool:
        """Whether records can be taken now, after a short wait for it."""
        if not self._may_take_now():
            return False
        # Half of the room at once: fewer, larger commits than one by one.
        return self._buffer.wait_for_room(FULL_WAIT_S, at_least=max(1, self._buffer.limit // 2))

    def _space_out(self, spacing_s: float) -> None:
        """Let a few records come together when they come in quick succession.

        At 200/s, one by one, polls and commits would take the processor from the handlers.
        """
        left_s = self._taken_s + spacing_s - monotonic_s()
        if left_s > 0 and self._taken < FEW_RECORDS:
            self._stopping.wait(left_s)

    def _take(self, source: KafkaSource, polled: Sequence[Record]) -> None:
        records, paused = self._gates.sift(polled)
        if paused:
            source.rewind(paused)
        if not records:
            return
        self._taken, self._taken_s = len(records), monotonic_s()
        received = self._receive(records)
        for step in self._before_commit:
            received, left = step.prepare(received)
            if left:
                self._read_again(source, left, why="their wait records could not be written")
        if not received:
            return
        # A request without a key stays in the buffer, and the next poll keeps to its room.
        self._stays = any(not isinstance(one, Delivery) or lane_of(one) is None for one in received)
        # A rebalance in another thread looks for them: as soon as their commit is made their next
        # owner would go on behind them.
        with self._buffer.arrival(received):
            self._bring(source, received)

    def _bring(self, source: KafkaSource, received: Sequence[Received]) -> None:
        # While Redis is slow or away the commit does not wait for it, and whoever dies then leaves
        # PENDING behind instead of LOST: its client resends later, and as safely.
        with self._accepting(received) as marked:
            covered = self._commit(source, [one.record for one in received])
        received = marked
        kept = [one for one in received if _is_covered(one, covered)]
        self._unsure.forget(kept)
        if len(kept) < len(received):
            dropped = [one for one in received if not _is_covered(one, covered)]
            self._unsure.note(one for one in dropped if (*one.record[:2],) not in covered)
            self._drop(source, dropped)
        if kept:
            self._buffer.put(kept)
            self._wake()

    def _receive(self, records: Sequence[Record]) -> list[Received]:
        now_s, now_ms = monotonic_s(), epoch_ms()
        received: list[Received] = []
        for record in records:
            one = receive(
                record,
                self._handlers[record.topic],
                group=self._settings.kafka.group,
                default_deadline_s=self._settings.worker.deadline_s,
                now_s=now_s,
                now_ms=now_ms,
            )
            received.append(one)
        return received

    @contextmanager
    def _accepting(self, received: Sequence[Received]) -> Iterator[list[Received]]:
        """Tell that these were read while the block runs; after it the list has them, marked where
        Redis knows a run of one."""
        valid = _valid(received)
        marked: list[Received] = []
        with self._status_writer.telling(
            [status_messages.accepted(one, worker_id=self._worker_id) for one in valid]
        ) as answers:
            yield marked
        marked += _marked(received, _known_among(valid, answers))

    def _commit(self, source: KafkaSource, records: Sequence[Record]) -> Mapping[Partition, int]:
        """Return the committed offset of each partition, as far as it is known."""
        wanted: dict[Partition, int] = {}
        for record in records:
            partition = (record.topic, record.partition)
            wanted[partition] = max(wanted.get(partition, 0), record.offset + 1)
        try:
            source.commit(wanted)
        except CommitFailed as error:
            if error.fault is None:
                log.warning("commit.failed", reason=str(error), partitions=len(wanted))
            else:
                self._note_kafka(error)
                self._uncommitted |= wanted.keys()
        else:
            self._uncommitted -= wanted.keys()
            return wanted
        try:
            return source.committed(list(wanted))
        except KafkaUnavailable as error:
            # Nothing was dispatched, so reading it all again is safe. A commit that is refused is
            # told of already, and by more: with the group's name.
            if not self._uncommitted.issuperset(wanted):
                self._note_kafka(error)
            return {}

    def _drop(self, source: KafkaSource, dropped: Sequence[Received]) -> None:
        # By way of the status writer, which may still have their ACCEPTED.
        self._status_writer.tell(
            [status_messages.given_up(one, worker_id=self._worker_id) for one in _valid(dropped)]
        )
        self._read_again(source, dropped, why="their commit did not succeed")

    def _give_back(self, source: KafkaSource) -> None:
        """Let others have dropped requests that went with their partitions, and nobody reads."""
        if monotonic_s() < self._asks_at_s:
            return
        for topic in self._unsure.topics:
            try:
                unread = self._unsure.take_unread(source, topic)
            except KafkaUnavailable as error:
                # Whoever is away, or refuses this, is told of by the next poll or commit.
                self._asks_at_s = monotonic_s() + AWAY_PAUSE_S
                if not isinstance(error, TopicRefused | TopicAbsent):
                    return  # it would not answer of the others either
            else:
                self._read_by_nobody(unread)

    def _read_by_nobody(self, unread: Sequence[Received]) -> None:
        deliveries = _valid(unread)
        if deliveries:
            log.warning("records.unread", count=len(deliveries))
            for step in self._before_commit:
                step.read_by_nobody(deliveries)
        # These do not run: whoever may have read them as well writes the same about them.
        refused = [one for one in unread if not isinstance(one, Delivery)]
        if refused:
            self._buffer.put(refused)
            self._wake()

    def _read_again(self, source: KafkaSource, dropped: Sequence[Received], *, why: str) -> None:
        source.rewind(first_of(one.record for one in dropped))
        log.warning("records.dropped", count=len(dropped), why=why)
        # They are read again at once: a record that is refused each time must not spin.
        self._stopping.wait(DROPPED_PAUSE_S)


def first_of(records: Iterable[Record]) -> dict[Partition, int]:
    """Return the lowest offset of each partition."""
    first: dict[Partition, int] = {}
    for record in records:
        partition = (record.topic, record.partition)
        first[partition] = min(first.get(partition, record.offset), record.offset)
    return first


def _known_among(
    valid: Sequence[Delivery], answers: Sequence[Refused | None]
) -> dict[Place, Delivery]:
    """Return those of which Redis knows a run, as its answers say, by where they were read."""
    return {
        (*one.record[:3],): one._replace(is_known=True)
        for one, answer in zip(valid, answers, strict=False)
        if answer is not None and answer.generation > 0
    }


def _marked(received: Sequence[Received], known: Mapping[Place, Delivery]) -> Sequence[Received]:
    if not known:
        return received
    return [known.get((*one.record[:3],), one) for one in received]


def _valid(received: Sequence[Received]) -> list[Delivery]:
    return [one for one in received if isinstance(one, Delivery)]


def _is_covered(one: Received, committed: Mapping[Partition, int]) -> bool:
    record = one.record
    return record.offset < committed.get((record.topic, record.partition), 0)
