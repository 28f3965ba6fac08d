"""Everything of a worker that `delivery="at_least_once"` needs beside its road."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from consumer.buffer import Buffer
from consumer.dead_letters.evidence import Evidence
from consumer.dead_letters.making import strategy_of
from consumer.dead_letters.payloads import Payloads
from consumer.dead_letters.posting import Posting
from consumer.declaration import DeliveryKind, Handler
from consumer.kafka_source import KafkaSource
from consumer.outage import Outage
from consumer.pausing.pausing import NEVER_PAUSED, Pausing
from consumer.waits.ends import Ends
from consumer.waits.holders import Heartbeats
from consumer.waits.holding import ROOM_BYTES, Holding
from consumer.waits.keeper import Keeper
from consumer.waits.preparing import NOTHING_PREPARED, Prepares, Preparing
from consumer.waits.record import wait_topic
from consumer.waits.resuming import Resuming
from feedback.kafka_reader import RecordReader
from feedback.kafka_topics import KafkaTopics
from feedback.kafka_writer import KafkaWriter
from feedback.logs import EventLog
from feedback.settings import Settings
from feedback.statuses import StatusWrite
from feedback.store import StatusStore

log = EventLog("onceward.waits")

END_S = 5.0
# Of a heartbeat's length: who lives beats three times within it.
GRACE = 0.5


class Waits:
    """The wait topics of a worker's handlers; where none wants them, nothing is started.

    Args:
        settings: brokers, group, and whether to make missing topics.
        worker_id: who holds what is read here.
        handlers: all of the worker.
        outlives: whether the journal is there for others when this worker is not.
        store: heartbeats, statuses, and what clients have kept.
        redis_away: whether asking Redis would only cost time.
        buffer: where requests wait for a slot.
        tell: tells clients.
        wake: wakes the worker's loop.
        on_end: called with the error that ended the reading, or None after `stop_reading`.
        pausing: knows the topics of which nothing goes on now.

    Attributes:
        preparing: for the intake.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        worker_id: str,
        handlers: Iterable[Handler],
        outlives: bool,
        store: StatusStore,
        redis_away: Callable[[], bool],
        buffer: Buffer,
        tell: Callable[[Iterable[StatusWrite]], None],
        wake: Callable[[], None],
        on_end: Callable[[BaseException | None], None],
        pausing: Pausing = NEVER_PAUSED,
    ) -> None:
        self._settings = settings
        self._handlers = _wanting(handlers)
        kafka, group = settings.kafka, settings.kafka.group
        create = settings.worker.create_topics
        self._holding = Holding(
            group=group, writer=KafkaWriter(kafka), topics=KafkaTopics(kafka, create=create)
        )
        outage = Outage("wait_records")
        self.preparing: Prepares = NOTHING_PREPARED
        if self._handlers:
            self.preparing = Preparing(
                worker_id=worker_id,
                topics=self._handlers.keys(),
                holding=self._holding,
                outage=outage,
            )
        self.ends = _make_ends(
            settings,
            self._handlers,
            worker_id=worker_id,
            outlives=outlives,
            store=store,
            redis_away=redis_away,
            tell=tell,
            outage=outage,
        )
        self._keeper = Keeper(
            worker_id=worker_id,
            group=group,
            heartbeats=Heartbeats(store, grace_s=GRACE * settings.redis.heartbeat_ttl_s),
            reader=RecordReader(kafka),
            takings=self._holding,
            ends=self.ends,
            resuming=Resuming(
                self._handlers,
                statuses=store,
                default_deadline_s=settings.worker.deadline_s,
                has_journal=outlives,
            ),
            buffer=buffer,
            open_source=self._open_source,
            on_buffered=wake,
            on_end=on_end,
            pausing=pausing,
        )

    def start(self) -> None:
        """Begin to read and to write."""
        if self._handlers:
            self.ends.start()
            self._keeper.start()

    def stop_reading(self) -> None:
        """Leave the group; returns at once."""
        self._keeper.stop()

    def join_reading(self, timeout_s: float) -> bool:
        """Return whether nothing is taken over any more, after at most `timeout_s`."""
        return self._keeper.join(timeout_s)

    def stop(self) -> None:
        """End: say what is to be said while Kafka answers; the next keepers find the rest."""
        if not self._handlers:
            return
        self._keeper.stop()
        self._keeper.join(END_S)
        self.ends.stop()
        self._holding.close()

    def _open_source(self) -> KafkaSource:
        kafka = self._settings.kafka
        topics = KafkaTopics(kafka, create=self._settings.worker.create_topics)
        names = []
        for topic in self._handlers:
            name = wait_topic(topic, kafka.group)
            topics.ensure(name, like=topic, room_bytes=ROOM_BYTES, compacted=True)
            if topics.is_compacted(name) is False:
                log.warning("wait.not_compacted", topic=name)
            names.append(name)
        # A group of its own, as for retries: see `feedback.retry_group`.
        own = kafka.model_copy(update={"group": f"{kafka.group}.wait"})
        return KafkaSource(own, names)


def _wanting(handlers: Iterable[Handler]) -> Mapping[str, Handler]:
    return {one.topic: one for one in handlers if one.delivery is DeliveryKind.AT_LEAST_ONCE}


def _make_ends(
    settings: Settings,
    handlers: Mapping[str, Handler],
    *,
    worker_id: str,
    outlives: bool,
    store: StatusStore,
    redis_away: Callable[[], bool],
    tell: Callable[[Iterable[StatusWrite]], None],
    outage: Outage,
) -> Ends:
    kafka = settings.kafka
    evidence = Evidence()
    letters, writer = KafkaWriter(kafka), KafkaWriter(kafka)
    payloads = Payloads(reader=RecordReader(kafka), store=store, redis_away=redis_away)

    def close() -> None:
        letters.close()
        payloads.close()

    posting = Posting(
        group=kafka.group,
        evidence=evidence,
        payloads=payloads,
        topics=KafkaTopics(kafka, create=settings.worker.create_topics),
        writer=letters,
        stopping=lambda: False,
    )
    return Ends(
        group=kafka.group,
        worker_id=worker_id,
        strategies={topic: strategy_of(settings, topic) for topic in handlers},
        outcomes=[one.topic for one in handlers.values() if one.outcome_topic is not None],
        outlives=outlives,
        writer=writer,
        letters=posting,
        evidence=evidence,
        tell=tell,
        outage=outage,
        close=close,
    )
