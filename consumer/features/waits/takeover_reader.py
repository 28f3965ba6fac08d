"""The thread that reads the wait topics and goes on with unfinished requests of dead workers.

Each partition of a wait topic has one keeper in the group, `<group>.wait`. It reads it from its
begin, so that it knows all unfinished requests, goes on reading, and commits nothing. It takes over
requests without a living holder: it writes that it is the holder from now on, and when it reads its
own record it knows whether it was the first (`unfinished_requests`). Only then the request
goes into the buffer, like one that was just read and committed. If the process dies
- before that record: nothing happened, the next keeper does the same;
- after it: the record names a dead worker, and the next keeper goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from consumer.features.waits.live_workers import LiveWorkers
from consumer.features.waits.tombstone_writer import TombstoneWriter
from consumer.features.waits.unfinished_requests import (
    Taking,
    UnfinishedRequest,
    UnfinishedRequests,
    WaitDeliveries,
)
from consumer.features.waits.wait_record import Tombstone, WaitRecord, decode_wait, source_topic
from consumer.features.waits.write_ahead import WaitRecordWriter
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery, RefusedRecord
from consumer.intake.kafka_thread import KafkaThread
from consumer.loop.core import Core
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import InvalidMessage, KafkaUnavailable, RedisUnavailable
from feedback.kafka.reader import RecordReader
from feedback.kafka.source import KafkaSource
from feedback.kafka.values import Partition
from feedback.logs import EventLog
from feedback.records.envelope import Record

log = EventLog("onceward.waits")

POLL_S = 0.25
MAX_RECORDS = 500
AWAY_PAUSE_S = 1.0
READ_TIMEOUT_S = 5.0
LOOK_EVERY_S = 0.5
# The share of the buffer: takeovers must not keep others from reading their own.
SHARE = 2
# A share of a heartbeat's length: a living worker writes it three times within that length.
GRACE = 0.5


class AskedTaking(NamedTuple):
    """A taking that is written and not read back yet.

    Args:
        before: as the holder before had it, for whom it is in doubt.
    """

    wait: WaitRecord
    before: WaitRecord


class TakeoverReader(KafkaThread):
    """Feeds the buffer with requests that no living worker holds, until it is asked to stop.

    Args:
        handlers: those whose requests may have wait records, by topic.
        takings: writes that we take something over.
        tombstones: writes further messages.
    """

    def __init__(
        self,
        core: Core,
        handlers: Mapping[str, Handler],
        *,
        takings: WaitRecordWriter,
        tombstones: TombstoneWriter,
        open_source: Callable[[], KafkaSource | None],
    ) -> None:
        super().__init__(core, "waits", away="waits", open_source=open_source)
        self._worker_id = core.worker_id
        self._group = core.group
        self._live_workers = LiveWorkers(
            core.store, grace_s=GRACE * core.settings.redis.heartbeat_ttl_s
        )
        self._reader = RecordReader(core.settings.kafka)
        self._takings = takings
        self._tombstones = tombstones
        self._deliveries = WaitDeliveries(
            handlers,
            statuses=core.store,
            group=core.settings.kafka.group,
            default_deadline_s=core.settings.worker.deadline_s,
            has_journal=core.outlives,
        )
        self._buffer = core.buffer
        self._tables: dict[Partition, UnfinishedRequests] = {}
        self._asked: dict[tuple[Partition, str], AskedTaking] = {}
        self._looked_s = float("-inf")

    def _turn(self, source: KafkaSource) -> None:
        try:
            records = source.poll(POLL_S, max_records=MAX_RECORDS)
            self._let_go(source)
            for record in records:
                self._read(record)
            self._take_over(source)
            self._note_kafka(None)
        except KafkaUnavailable as error:
            self._note_kafka(error)
            self._stopping.wait(AWAY_PAUSE_S)

    def _leave(self, source: KafkaSource) -> None:
        for partition in {partition for partition, _ in self._asked}:
            self._give_back(partition)
        self._reader.close()
        super()._leave(source)

    # reading -------------------------------------------------------------------------------

    def _let_go(self, source: KafkaSource) -> None:
        """Forget partitions that were taken away; those that came back are read from their begin.

        Takings there of which we have not heard are left to their next keeper.
        """
        revoked = source.take_revoked()
        if not revoked:
            return
        for partition in revoked:
            self._tables.pop(partition, None)
            self._give_back(partition)
        source.rewind(dict.fromkeys(revoked, 0))

    def _give_back(self, partition: Partition) -> None:
        for name in [name for name in self._asked if name[0] == partition]:
            asked = self._asked.pop(name)
            # For the next owner it is as it was before: begun, or not.
            given_back = asked.before._replace(generation=asked.wait.generation + 1)
            self._tombstones.put_right(given_back, partition[1])

    def _read(self, record: Record) -> None:
        partition = (record.topic, record.partition)
        try:
            said = decode_wait(record, group=self._group)
        except InvalidMessage as error:
            log.warning("wait.malformed", topic=record.topic, reason=error.reason)
            return
        table = self._tables.setdefault(partition, UnfinishedRequests(self._worker_id))
        taking = table.apply(record.offset, said)
        if taking is None or isinstance(said, Tombstone):
            return
        if taking is Taking.STRAY:
            log.info("wait.stray", request_id=said.request_id, generation=said.generation)
            self._tombstones.ended_before(said, partition[1])
            return
        asked = self._asked.pop((partition, said.request_id))
        known = table.of(said.request_id)
        match taking:
            case Taking.OURS:
                self._go_on(asked, partition[1])
            case Taking.OVER:
                self._tombstones.ended_before(asked.wait, partition[1])
            case Taking.LOST if known is not None:
                # Ours is the latest record now: it has to name the new holder.
                other = asked.wait._replace(
                    holder=known.holder,
                    generation=known.generation,
                    effect=known.effect,
                    in_doubt=known.in_doubt,
                )
                self._tombstones.put_right(other, partition[1])

    # taking over ---------------------------------------------------------------------------

    def _take_over(self, source: KafkaSource) -> None:
        room = self._buffer.room // SHARE - len(self._asked)
        now_s = monotonic_s()
        is_early = now_s - self._looked_s < LOOK_EVERY_S
        if room <= 0 or is_early or self._stopping.is_set():
            return
        self._looked_s = now_s
        tables: dict[Partition, UnfinishedRequests] = {}
        for partition, table in self._tables.items():
            # Nothing is asked about a paused topic: a refusal would hinder all others.
            if self._is_ours(partition) and source.is_read(partition):
                table.is_current = True
                tables[partition] = table
        gone = self._gone(set().union(*(table.holders() for table in tables.values())), now_s)
        now_ms = epoch_ms()
        for partition, table in tables.items():
            found = [one for one in table if _is_left(one, table, gone, now_ms)][:room]
            room -= len(found)
            self._ask(partition, table, found)

    def _gone(self, holders: set[str], now_s: float) -> Collection[str]:
        """Return the holders that are not alive; none while that is not known."""
        try:
            return self._live_workers.look(holders - {self._worker_id}, now_s=now_s).gone
        except RedisUnavailable as error:
            log.debug("waits.left", reason=str(error))
            self._live_workers.forget()
            return ()

    def _is_ours(self, partition: Partition) -> bool:
        topic = source_topic(partition[0], self._group)
        return self._deliveries.has(topic) and topic not in self._gates.unread

    def _ask(
        self, partition: Partition, table: UnfinishedRequests, entries: Iterable[UnfinishedRequest]
    ) -> None:
        taking: list[AskedTaking] = []
        for entry in entries:
            wait = self._payload(partition, entry)
            if wait is not None:
                generation = table.ask(entry)
                ours = self._deliveries.taken(
                    wait, worker_id=self._worker_id, generation=generation
                )
                taking.append(AskedTaking(ours, wait))
        # Noted before they are written: a dying connection may have sent any of them.
        for one in taking:
            self._asked[partition, one.wait.request_id] = one
        said = self._takings.hold((one.wait, partition[1]) for one in taking)
        for one, error in zip(taking, said, strict=True):
            if error is None:
                log.info(
                    "wait.asked_for",
                    request_id=one.wait.request_id,
                    generation=one.wait.generation,
                    holder=one.before.holder or "",
                )
            else:
                table.withdraw(one.wait.request_id)
                del self._asked[partition, one.wait.request_id]
                log.warning("wait.not_taken", request_id=one.wait.request_id, reason=str(error))

    def _payload(self, partition: Partition, entry: UnfinishedRequest) -> WaitRecord | None:
        record = self._reader.read(*partition, entry.offset, timeout_s=READ_TIMEOUT_S)
        if record is None:
            return None  # a newer record of it has come, and will be read
        said = decode_wait(record, group=self._group)
        return said if isinstance(said, WaitRecord) else None

    def _go_on(self, asked: AskedTaking, partition: int) -> None:
        wait, before = asked
        received = self._deliveries.received(wait)
        # A record that breaks the rules of records has never run.
        runs = isinstance(received, RefusedRecord) or self._deliveries.may_run(before)
        log.warning(
            "wait.taken_over",
            request_id=wait.request_id,
            generation=wait.generation,
            holder=before.holder or "",
            runs=runs,
        )
        self._tombstones.took(wait, partition, ends_as=received.request_id)
        if runs:
            self._buffer.put([received])
            self._wake()
        elif isinstance(received, Delivery):
            self._tombstones.in_doubt(received)


def _is_left(
    one: UnfinishedRequest, table: UnfinishedRequests, gone: Collection[str], now_ms: int
) -> bool:
    """Whether no living worker holds it; a request past its expiry is the registry's."""
    is_free = not one.holder or one.holder in gone
    return is_free and one.expires_at > now_ms and one.request_id not in table.asked
