"""The thread that reads topics with `delivery="batch"`: poll, run all of it, commit, poll again.

If the process dies, all of the batch is read again by the next owner of its partitions: ended
requests are answered from the journal, and begun ones go by the policy of their handler. So the
commit may come a moment late, and comes while the next batch begins: it takes as long as a claim,
and the handlers would wait for it. A worker that loses a partition commits it then
(`kafka_source`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar

from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Received
from consumer.intake.context import IntakeContext
from consumer.intake.intake import AWAY_PAUSE_S, POLL_S, Intake, first_of
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.source import CommitFailed, KafkaSource
from feedback.kafka.values import Partition, Place
from feedback.logs import EventLog
from feedback.records.envelope import Record
from feedback.status import FINAL, State
from feedback.statuses import StatusWrite

log = EventLog("onceward.intake")


# Statuses of a request for which this batch need not wait: RUNNING is written so when another
# worker runs it.
_ENDED = FINAL | {State.RETRYING, State.RUNNING}


def make(core: Core) -> Sequence[Feature]:
    """Return the reader of those topics that are read batch by batch.

    It reads them alone, since it waits for the end of each batch.
    """
    handlers = [one for one in core.handlers if one.delivery is DeliveryKind.BATCH]
    if not handlers:
        return ()
    worker = core.settings.worker
    batches: BatchIntake = BatchIntake(
        core,
        handlers,
        open_source=lambda: core.open_source(handlers, batches.uncommitted),
        limit=worker.batch_size,
        has_any=core.has_any,
        end_s=worker.drain_timeout_s,
    )
    return (batches,)


class BatchIntake(Intake, Feature):
    """Feeds the buffer with one batch after the other; the rest is as with `Intake`.

    Args:
        has_any: whether the worker still has anything of these places.
        end_s: how long the last batch may take when the worker ends.
    """

    # As in `intake.not_ended`.
    name: ClassVar[str] = "intake"

    def __init__(
        self,
        context: IntakeContext,
        handlers: Iterable[Handler],
        *,
        open_source: Callable[[], KafkaSource],
        limit: int,
        has_any: Callable[[Collection[Place]], bool],
        end_s: float,
    ) -> None:
        super().__init__(context, handlers, open_source=open_source, name="batches")
        self._limit = limit
        self._has_any = has_any
        self._end_s = end_s
        self._batch: list[Received] = []
        self._running: list[Received] = []
        self._ended: set[str] = set()
        self._given_up: set[Place] = set()
        self._was_gone = False
        self._due: dict[Partition, int] = {}
        self._told = threading.Event()

    def told(self, writes: Sequence[StatusWrite]) -> None:
        ended = [
            one.request_id
            for one in writes
            if one.state in _ENDED and not one.restore and one.topic in self._handlers
        ]
        if ended:
            self._ended.update(ended)
            self._told.set()

    def given_up(self, deliveries: Iterable[Delivery]) -> None:
        """Hear of requests that the worker does not run: they are read again. Any thread."""
        self._given_up.update((*one.record[:3],) for one in deliveries)
        self._told.set()

    def leave(self) -> None:
        """Read no more; the batch in hand may end. Returns at once, see `has_left`."""
        super().leave()
        self._told.set()

    def _turn(self, source: KafkaSource) -> None:
        if not self._batch:
            super()._turn(source)
            self._commit_due(source)
            return
        if self._await_batch(POLL_S):
            self._end_batch(source)
            return
        # A batch of ten minutes costs no group membership.
        source.pause()
        try:
            # Of a partition that has just come something may have been fetched already.
            source.rewind(first_of(source.poll(0, max_records=1)))
        except KafkaUnavailable as error:
            self._note_kafka(error)
            self._stopping.wait(AWAY_PAUSE_S)

    def _leave(self, source: KafkaSource) -> None:
        until_s = monotonic_s() + self._end_s
        while self._batch and monotonic_s() < until_s:
            if self._await_batch(POLL_S):
                self._end_batch(source)
        self._commit_due(source)
        super()._leave(source)

    @property
    def _most(self) -> int:
        return self._limit

    def _wait_for_room(self) -> bool:
        return self._may_take_now()

    def _take(self, source: KafkaSource, polled: Sequence[Record]) -> None:
        records, paused = self._gates.sift(polled)
        if paused:
            source.rewind(paused)
        if not records:
            return
        self._given_up.clear()
        self._ended.clear()
        self._was_gone = False
        self._batch = self._receive(records)
        # It is not committed, so a worker that dies here loses nothing. But its last owner may have
        # run some of it, and Redis says so.
        with self._accepting(self._batch) as marked:
            pass  # it commits when they have ended
        self._batch = marked
        self._running = [*self._batch]
        self._buffer.put(self._batch)
        self._wake()

    def _await_batch(self, timeout_s: float) -> bool:
        until_s = monotonic_s() + timeout_s
        while self._running:
            self._told.clear()
            self._running = [one for one in self._running if not self._has_ended(one)]
            left_s = until_s - monotonic_s()
            if self._running and left_s <= 0:
                return self._is_left()
            if self._running:
                self._told.wait(left_s)
        return True

    def _has_ended(self, one: Received) -> bool:
        # A record that was refused for another's id has ended under its coordinates.
        names = {one.request_id, one.record.coordinates_id}
        return (*one.record[:3],) in self._given_up or not names.isdisjoint(self._ended)

    def _is_left(self) -> bool:
        """Whether the worker is done with it, though no status says how it ended.

        Looked at twice: on its way from one hand to the next a request may not be seen.
        """
        is_gone = not self._has_any({(*one.record[:3],) for one in self._running})
        was_gone, self._was_gone = self._was_gone, is_gone
        return is_gone and was_gone

    def uncommitted(self, revoked: Collection[Partition]) -> Mapping[Partition, int]:
        """Return the ended, uncommitted requests of partitions that are taken away."""
        due = self._due  # it may be replaced meanwhile
        return {one: due[one] for one in revoked if one in due}

    def _end_batch(self, source: KafkaSource) -> None:
        again: dict[Partition, int] = {}
        for one in self._batch:
            topic, partition, offset = one.record[:3]
            if (topic, partition, offset) in self._given_up:
                again.setdefault((topic, partition), offset)
            if (topic, partition) not in again:
                self._due[topic, partition] = offset + 1
        self._batch = []
        source.rewind(again)
        self._keep_behind(source)

    def _keep_behind(self, source: KafkaSource) -> None:
        """Go on behind the batch where its partitions went meanwhile and came back.

        They are read from the committed offset, which is in front of it. Where another worker has
        come further, or nobody can say, nothing of this batch is committed any more.
        """
        gone = source.take_revoked().intersection(self._due)
        back = sorted(gone.intersection(source.assigned()))
        committed: Mapping[Partition, int] = {}
        if back:
            try:
                committed = source.committed(back)
            except KafkaUnavailable as error:
                self._note_kafka(error)
        behind = {one: self._due[one] for one in back}
        behind = {one: at for one, at in behind.items() if committed.get(one, at + 1) <= at}
        source.rewind(behind)
        self._due = {one: at for one, at in self._due.items() if one in behind or one not in gone}

    def _commit_due(self, source: KafkaSource) -> None:
        # A broker would take an offset of another worker's partition, and move that one's back.
        owned = source.assigned()
        due = {one: at for one, at in self._due.items() if one in owned}
        if due:
            try:
                source.commit(due)
            except CommitFailed as error:
                # Another worker has them by now, or will: ended ones are answered there.
                log.warning("commit.failed", reason=str(error), partitions=len(due))
        # Not before: a partition that goes while it is committed is committed as it goes.
        self._due = {}
