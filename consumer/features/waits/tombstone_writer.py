"""The threads that write into the wait topics how requests ended, and corrections.

A tombstone follows the final row of the journal: if the process dies before it, the next keeper
takes the request over, its claim is answered from the row, and the tombstone follows then. Without
a journal that outlives the worker it also follows the dead letter and the outcome's record.

Some requests end without another dead letter, and no client waits for them: expired ones, and those
that a dead worker may have done. They get their letter here, first, by a thread of its own: a
letter that cannot be written must not delay the tombstones of others.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from consumer.features.dead_letters.strategies import KEEP, NONE, STOP, strategy_of
from consumer.features.outcomes.outcomes import outcome_topics
from consumer.features.outgoing.outgoing_loop import PageWriter
from consumer.features.outgoing.recent_runs import RecentFailures
from consumer.features.outgoing.record_writer import DEAD_LETTERS, OUTCOMES
from consumer.features.outgoing.sending_thread import SendingThread
from consumer.features.waits.wait_end import (
    WaitCorrection,
    WaitEnd,
    WaitPlace,
    doubt,
    row_of_status,
)
from consumer.features.waits.wait_record import GIVEN_BACK, WaitRecord, encode_wait, tombstone
from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.handlers.delivery import Delivery
from consumer.journal import Run
from consumer.journal.records import WORKER_DIED, Row
from consumer.journal.waiting import OwedRow
from consumer.loop.core import Core
from consumer.status.availability import ServerOutage
from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import Outgoing, RecordRefused
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.status import FINAL, State
from feedback.statuses import StatusWrite

log = EventLog("onceward.waits")

GATHER_S = 0.01
REMEMBERED = 10_000
PAYLOAD_GONE = "PAYLOAD_GONE"
_ME = "ends"


def _is_reopened(write: StatusWrite) -> bool:
    """Whether it tells again of a failure that a resend or a redrive may have reopened since.

    Its wait record may be that of the next run by now.
    """
    return write.restore and write.state is State.FAILED and write.fields.get("resend") == "1"


def is_kept(one: Handler) -> bool:
    """Whether all requests of a handler have wait records."""
    return one.delivery is DeliveryKind.AT_LEAST_ONCE


class TombstoneWriter:
    """Writes until stopped.

    Args:
        handlers: those whose requests may have wait records, by topic. With
            `delivery="at_least_once"` all of them have one; of the others those have one that
            were taken over.
        writer: used by one thread alone.
        recent: records and errors of failures, where they are known here.
    """

    def __init__(
        self,
        core: Core,
        handlers: Mapping[str, Handler],
        *,
        writer: KafkaWriter,
        letters: PageWriter,
        recent: RecentFailures,
        outage: ServerOutage,
    ) -> None:
        self._group = core.group
        self._worker_id = core.worker_id
        self._strategies = {topic: strategy_of(core.settings, topic) for topic in handlers}
        self._kept_topics = {topic for topic, one in handlers.items() if is_kept(one)}
        self._outcomes = outcome_topics(handlers.values())
        self._outlives = core.outlives
        self._writer = writer
        self._letters = letters
        self._recent = recent
        self._status_writer = core.status_writer
        self._outage = outage
        self._lock = threading.Lock()
        self._places: dict[str, WaitPlace] = {}
        self._kept: dict[Run, tuple[WaitEnd, set[str]]] = {}
        self._closed: dict[tuple[str, Run], None] = {}
        self._saying = SendingThread[WaitEnd | WaitCorrection](
            "wait-ends", write=self._say, close=writer.close, gather_s=GATHER_S
        )
        self._burying = SendingThread[WaitEnd](
            "wait-letters",
            write=self._bury,
            close=letters.close,
            gather_s=GATHER_S,
            is_ordered=False,
        )

    def start(self) -> None:
        self._saying.start()
        self._burying.start()

    def stop(self, timeout_s: float) -> None:
        """Write the waiting messages while Kafka answers, and end the threads."""
        # Its letters are followed by tombstones.
        self._burying.stop(timeout_s / 2)
        self._saying.stop(timeout_s / 2)

    # hearing -------------------------------------------------------------------------------

    def hear(self, writes: Iterable[StatusWrite]) -> None:
        """Hear statuses for clients: a final one ends its request. Any thread; returns at once."""
        for write in writes:
            if _is_reopened(write):
                continue
            if write.state in FINAL and self._waits(write.topic, write.request_id):
                self._ended(self._end_of(write), self._awaited(write))

    def given_back(self, deliveries: Iterable[Delivery]) -> None:
        """Note requests that this worker does not run: any worker may take them."""
        self._saying.send(
            WaitCorrection(
                WaitRecord(one.request_id, one.taken + 1, GIVEN_BACK, one.deadline_at, one.record),
                self._partition_of(one.request_id),
            )
            for one in deliveries
            if self._waits(one.record.topic, one.request_id) and not one.wakes
        )

    def _waits(self, topic: str, request_id: str) -> bool:
        return topic in self._kept_topics or request_id in self._places

    def done(self, kind: str, rows: Sequence[Row]) -> None:
        """Hear that the dead letters or the outcomes of these runs are written. Any thread."""
        if self._outlives:
            return
        ready: list[WaitEnd] = []
        with self._lock:
            for name in ((row.request_id, row.generation) for row in rows):
                if name not in self._kept:
                    # Its status is written a moment later.
                    self._closed[kind, name] = None
                    continue
                end, awaited = self._kept[name]
                awaited.discard(kind)
                if not awaited:
                    ready.append(end)
                    del self._kept[name]
            while len(self._closed) > REMEMBERED:
                del self._closed[next(iter(self._closed))]
        self._saying.send(ready)

    def _ended(self, end: WaitEnd, awaited: set[str]) -> None:
        name = (end.ended_as, end.generation)
        with self._lock:
            early = {one for one in awaited if (one, name) in self._closed}
            for one in early:
                del self._closed[one, name]
            awaited -= early
            if awaited:
                self._kept[name] = (end, awaited)
                return
        if end.row is None:
            self._saying.send([end])
        else:
            self._burying.send([end])

    def _end_of(self, write: StatusWrite) -> WaitEnd:
        is_buried = write.state is State.EXPIRED or (
            write.state is State.IN_DOUBT
            and (not self._outlives or write.fields.get("code") == WORKER_DIED)
        )
        has_letter = is_buried and self._strategies[write.topic] in (KEEP, STOP)
        place = self._places.get(write.request_id)
        return WaitEnd(
            write.request_id if place is None else place.request_id,
            write.request_id,
            write.topic,
            write.generation,
            write.state,
            None if place is None else place.partition,
            # By this worker's own clock: for the letter alone.
            row_of_status(write, worker_id=self._worker_id, now_ms=epoch_ms())
            if has_letter
            else None,
        )

    def _partition_of(self, request_id: str) -> int | None:
        place = self._places.get(request_id)
        return None if place is None else place.partition

    def _awaited(self, write: StatusWrite) -> set[str]:
        """Return the records to write before a journal that ends with this worker is dropped."""
        if self._outlives:
            return set()
        awaited = set()
        code, resend = write.fields.get("code"), write.fields.get("resend") == "1"
        is_dead = write.state is State.FAILED and not resend and code != PAYLOAD_GONE
        if is_dead and self._strategies[write.topic] != NONE:
            awaited.add(DEAD_LETTERS)
        if write.topic in self._outcomes and write.state is not State.IN_DOUBT:
            awaited.add(OUTCOMES)
        return awaited

    # messages of a keeper -------------------------------------------------------------------

    def took(self, wait: WaitRecord, partition: int, *, ends_as: str) -> None:
        """Hear that this worker goes on with a request, whose wait record stands there.

        Args:
            ends_as: the id that it ends under: a refused one has that of its place.
        """
        self._places[ends_as] = WaitPlace(wait.request_id, partition)

    def put_right(self, wait: WaitRecord, partition: int) -> None:
        """Have this record take the place of the one before."""
        self._saying.send([WaitCorrection(wait, partition)])

    def ended_before(self, wait: WaitRecord, partition: int) -> None:
        """Have a record go again of a request that had ended before it was written."""
        name = wait.request_id
        ended = WaitEnd(name, name, wait.record.topic, wait.generation, "", partition)
        self._saying.send([ended])

    def in_doubt(self, one: Delivery) -> None:
        """End a request whose worker died, and that must not run again: for a person."""
        self._recent.failed((one.request_id, one.begins_at), one.record, None)
        # The writer of the status notifies us.
        self._status_writer.tell([doubt(one, worker_id=self._worker_id)])

    # writing -------------------------------------------------------------------------------

    def _bury(self, batch: Sequence[WaitEnd]) -> list[WaitEnd]:
        """Write letters, and have the tombstones follow; return those to try again."""
        ends = {(one.ended_as, one.generation): one for one in batch}
        settled: list[WaitEnd] = []
        dead = [OwedRow(one.row, None) for one in ends.values() if one.row is not None]
        for posted in self._letters.post(dead):
            rows = (*posted.written, *posted.gone)
            settled += [ends.pop((row.request_id, row.generation)) for row in rows]
            self._recent.forget((row.request_id, row.generation) for row in rows)
        self._saying.send(settled)
        return [*ends.values()]

    def _say(self, batch: Sequence[WaitEnd | WaitCorrection]) -> list[WaitEnd | WaitCorrection]:
        """Write the messages; return those to try again.

        Of records that are written together a later one may be there alone, or first. So those of
        one request follow each other, and none goes before one that is tried again.
        """
        left: list[WaitEnd | WaitCorrection] = []
        away: KafkaUnavailable | None = None
        for row in _in_rows(batch):
            stuck = {_request_id(one) for one in left}
            left += [one for one in row if _request_id(one) in stuck]
            going = [one for one in row if _request_id(one) not in stuck]
            # An empty write would wait once more for those that nobody has acknowledged.
            answers = self._writer.write([self._record(one) for one in going]) if going else []
            for one, error in zip(going, answers, strict=True):
                if isinstance(error, RecordRefused):
                    # A tombstone is never refused for its size, so this is a wait record.
                    log.error("wait.not_put_right", topic=_topic(one), reason=str(error))
                elif error is not None:
                    left.append(one)
                    away = error
                elif isinstance(one, WaitEnd):
                    self._places.pop(one.ended_as, None)
        if away is not None:
            self._outage.begins(_ME, away)
        else:
            self._outage.ends(_ME)
        return left

    def _record(self, one: WaitEnd | WaitCorrection) -> Outgoing:
        if isinstance(one, WaitCorrection):
            return encode_wait(one.wait, group=self._group, partition=one.partition)
        return tombstone(
            one.request_id,
            topic=one.topic,
            group=self._group,
            generation=one.generation,
            worker=self._worker_id,
            status=one.status,
            partition=one.partition,
        )


def _in_rows(batch: Iterable[WaitEnd | WaitCorrection]) -> list[list[WaitEnd | WaitCorrection]]:
    """Return the messages in their order, in rows with at most one of each request."""
    rows: list[list[WaitEnd | WaitCorrection]] = []
    count = Counter[str]()
    for one in batch:
        at = count[_request_id(one)]
        if at == len(rows):
            rows.append([])
        rows[at].append(one)
        count[_request_id(one)] += 1
    return rows


def _request_id(one: WaitEnd | WaitCorrection) -> str:
    return one.wait.request_id if isinstance(one, WaitCorrection) else one.request_id


def _topic(one: WaitEnd | WaitCorrection) -> str:
    return one.wait.record.topic if isinstance(one, WaitCorrection) else one.topic
