"""The thread that reads all retry topics of a worker and hands on due retries.

Nothing leaves this thread before its offset is committed, as in the intake, with one exception: a
record with a short delay overtakes an earlier one that waits longer (delays that are drawn): the
journal's row allows its run once, however often it is read. If the process dies
- before the commit: the next owner of the partition reads it again, and waits as long as is left;
- after it: the row is overdue, and a sweep wakes it up.

A partition with enough records in memory is paused, and polled all the same, so that a delay of an
hour costs no membership. A partition is also paused while its committed offset is unknown, after a
commit that was not answered. When the offset is known it is read again from there, and nothing of
it goes on before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from consumer.features.retries.delay_queue import DelayQueue, WaitingWakeup
from consumer.features.retries.headers import read_wakeup
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Buffer
from consumer.intake.context import IntakeContext
from consumer.intake.kafka_thread import KafkaThread
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import InvalidMessage, KafkaUnavailable
from feedback.kafka.source import CommitFailed, KafkaSource
from feedback.kafka.values import Partition
from feedback.logs import EventLog
from feedback.records.envelope import Record

log = EventLog("onceward.retries")

POLL_S = 0.25
FULL_POLL_S = 0.05
# Retries that are due one after the other go on together: each hand-over costs a commit, and each
# batch that the worker claims some statements more than an ordinary one.
TOGETHER_S = 0.1
MAX_RECORDS = 500
AWAY_PAUSE_S = 1.0
DROPPED_PAUSE_S = 0.2

TakenWakeUp = tuple[Partition, int, Delivery]


class RetryReader(KafkaThread):
    """Feeds the buffer with due retries from Kafka until it is asked to stop.

    Args:
        topics: the retry topics, each with the handler that it is for and its delay in ms.
        buffer: where due retries wait for a slot; those without room there stay in Kafka.
    """

    def __init__(
        self,
        context: IntakeContext,
        *,
        topics: Mapping[str, tuple[Handler, int]],
        buffer: Buffer,
        open_source: Callable[[], KafkaSource],
    ) -> None:
        super().__init__(context, "retries", away="retries", open_source=open_source)
        self._topics = topics
        self._buffer = buffer
        self._waiting = DelayQueue()
        self._committed: dict[Partition, int] = {}
        self._unknown: set[Partition] = set()
        self._ask_s = 0.0
        self._handed_s = 0.0

    def _turn(self, source: KafkaSource) -> None:
        self._ask_again(source)
        source.hold(self._waiting.full() | self._unknown)
        try:
            records = source.poll(self._patience_s(), max_records=MAX_RECORDS)
        except KafkaUnavailable as error:
            self._note_kafka(error)
            self._stopping.wait(AWAY_PAUSE_S)
            return
        self._note_kafka(None)
        self._let_go(source)
        for record in records:
            # A rebalance in the middle of a poll does not touch the records in memory.
            if (record.topic, record.partition) not in self._unknown:
                self._hold(record)
        self._hand_on(source)

    def _let_go(self, source: KafkaSource) -> None:
        """Forget partitions that were taken away: their new owner reads them again.

        That may be us: kafka-python keeps the positions of our partitions across a rebalance.
        """
        revoked = source.take_revoked()
        offsets = self._waiting.offsets()
        self._forget(revoked)
        source.rewind({one: offset for one, offset in offsets.items() if one in revoked})

    def _patience_s(self) -> float:
        due_s = self._waiting.next_due_s(self._gates.unread)
        if due_s is None:
            return POLL_S
        now_s = monotonic_s()
        if due_s <= now_s and not self._buffer.room:
            return FULL_POLL_S
        return min(POLL_S, max(0.0, due_s - now_s, self._handed_s + TOGETHER_S - now_s))

    def _hold(self, record: Record) -> None:
        partition = (record.topic, record.partition)
        handler, delay_ms = self._topics[record.topic]
        try:
            due = read_wakeup(record, handler, now_s=monotonic_s())
        except InvalidMessage as error:
            log.warning("retry.malformed", topic=record.topic, reason=error.reason)
            self._waiting.skip(partition, record.offset)
            return
        # Never longer than its topic says, even if this host's clock jumps.
        left_ms = min(due.due_at - epoch_ms(), delay_ms)
        # The monotonic clock is read after the wall clock: the time between them makes it late and
        # not early.
        due_s = monotonic_s() + max(0, left_ms) / 1000
        size_bytes = len(record.key or b"") + len(record.value or b"")
        one = WaitingWakeup(due_s, due.delivery, size_bytes)
        self._waiting.add(partition, record.offset, one)

    def _hand_on(self, source: KafkaSource) -> None:
        now_s = monotonic_s()
        if now_s < self._handed_s + TOGETHER_S:
            return
        due = self._waiting.take_due(now_s, self._buffer.room, self._gates.lets)
        wanted = {
            partition: offset
            for partition, offset in self._waiting.offsets().items()
            if offset > self._committed.get(partition, 0)
        }
        kept = due
        if wanted:
            try:
                source.commit(wanted)
            except CommitFailed as error:
                log.warning("commit.failed", reason=str(error), partitions=len(wanted))
                kept = self._covered(source, due, wanted)
            else:
                self._committed |= wanted
        if kept:
            self._handed_s = now_s
            self._buffer.put([delivery for _, _, delivery in kept])
            self._wake()

    def _covered(
        self, source: KafkaSource, due: Sequence[TakenWakeUp], wanted: Mapping[Partition, int]
    ) -> list[TakenWakeUp]:
        """Return the records that the committed offsets cover; all others are read again."""
        try:
            covered = source.committed(list(wanted))
        except KafkaUnavailable as error:
            log.warning("commit.unknown", reason=str(error), partitions=len(wanted))
            self._forget(wanted)
            self._unknown.update(wanted)
            self._ask_s = monotonic_s() + AWAY_PAUSE_S
            return [one for one in due if one[0] not in wanted]
        again = {
            partition: max(covered[partition], self._committed.get(partition, 0))
            for partition, offset in wanted.items()
            if covered[partition] < offset
        }
        self._forget(again)
        # From its begin, when nothing was ever committed: the records read of it are no loss.
        source.rewind(again)
        # A commit that is refused each time must not spin.
        self._stopping.wait(DROPPED_PAUSE_S)
        return [one for one in due if one[0] not in wanted or one[1] < covered[one[0]]]

    def _ask_again(self, source: KafkaSource) -> None:
        """Read on in partitions whose committed offset is known by now.

        Also of partitions that were taken away meanwhile: one may be ours again, and its position
        stays.
        """
        if not self._unknown or monotonic_s() < self._ask_s:
            return
        try:
            committed = source.committed(sorted(self._unknown))
        except KafkaUnavailable:
            self._ask_s = monotonic_s() + AWAY_PAUSE_S
            return
        log.info("commit.known", partitions=len(committed))
        self._unknown.clear()
        source.rewind(committed)

    def _forget(self, partitions: Mapping[Partition, int] | set[Partition]) -> None:
        self._waiting.forget(partitions)
        for partition in partitions:
            self._committed.pop(partition, None)
