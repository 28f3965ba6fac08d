"""Everything of a worker that `delivery="at_least_once"` needs beside its road.

A handler that was declared so before, and is not any more, has left wait records behind: of
requests that its workers gave back, or died with. They are taken over as well, wherever the topic
is there; the journal says which of them may run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from consumer.features.dead_letters.evidence import Evidence
from consumer.features.dead_letters.making import strategy_of
from consumer.features.dead_letters.payloads import Payloads
from consumer.features.dead_letters.posting import Posting
from consumer.features.waits.ends import Ends
from consumer.features.waits.holders import Heartbeats
from consumer.features.waits.holding import ROOM_BYTES, Holding
from consumer.features.waits.keeper import Keeper
from consumer.features.waits.preparing import Preparing
from consumer.features.waits.record import wait_topic
from consumer.features.waits.resuming import Resuming
from consumer.handlers.declaration import DeliveryKind, Handler
from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Buffer
from consumer.intake.gate import Gate
from consumer.loop.feature import Feature
from consumer.status.availability import ServerOutage
from feedback.errors import KafkaUnavailable
from feedback.kafka.reader import RecordReader
from feedback.kafka.source import KafkaSource
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from feedback.statuses import StatusWrite

log = EventLog("onceward.waits")

END_S = 5.0
ASK_AGAIN_S = 5.0
# Of a heartbeat's length: who lives beats three times within it.
GRACE = 0.5


class Waits(Feature):
    """The wait topics of a worker's handlers; where there are none, the reading ends at once.

    Args:
        settings: brokers, group, and whether to make missing topics.
        worker_id: the holder of requests that are read here.
        handlers: all of the worker.
        outlives: whether the journal is there for others when this worker is not.
        store: heartbeats, statuses, and stored payloads.
        redis_away: whether asking Redis would only cost time.
        buffer: where requests wait for a slot.
        tell: tells clients.
        wake: wakes the worker's loop.
        on_end: called with the error that ended the reading, or None after `stop_reading`.
        gates: close topics, of which nothing goes on then.

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
        gates: Sequence[Gate],
    ) -> None:
        self._settings = settings
        handlers = tuple(handlers)
        self._handlers = _wanting(handlers)
        self._others = {one.topic: one for one in handlers if _may_have_waited(one)}
        known = {**self._handlers, **self._others}
        self._is_writing = False
        self._stopping = threading.Event()
        kafka, group = settings.kafka, settings.kafka.group
        create = settings.worker.create_topics
        self._holding = Holding(
            group=group, writer=KafkaWriter(kafka), topics=KafkaTopics(kafka, create=create)
        )
        outage = ServerOutage("wait_records")
        self.preparing = Preparing(
            worker_id=worker_id,
            topics=self._handlers.keys(),
            holding=self._holding,
            outage=outage,
        )
        self.ends = _make_ends(
            settings,
            known,
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
                known,
                statuses=store,
                default_deadline_s=settings.worker.deadline_s,
                has_journal=outlives,
            ),
            buffer=buffer,
            open_source=self._open_source,
            on_buffered=wake,
            on_end=on_end,
            gates=gates,
        )

    def given_up(self, deliveries: Sequence[Delivery]) -> None:
        """Give back requests that this worker does not run: the first worker to come may."""
        self.ends.given_back(deliveries)

    def start(self) -> None:
        """Begin to read and to write."""
        if self._handlers:
            self._begin_to_write()
        if self._handlers or self._others:
            self._keeper.start()

    def _begin_to_write(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            self.ends.start()

    def stop_reading(self) -> None:
        """Leave the group; returns at once."""
        self._stopping.set()
        self._keeper.stop()

    def join_reading(self, timeout_s: float) -> bool:
        """Return whether nothing is taken over any more, after at most `timeout_s`."""
        return self._keeper.join(timeout_s)

    def stop(self) -> None:
        """End: write the waiting messages while Kafka answers; the next keepers find the rest."""
        self.stop_reading()
        self._keeper.join(END_S)
        if self._is_writing:
            self.ends.stop()
        self._holding.close()

    def _open_source(self) -> KafkaSource | None:
        kafka = self._settings.kafka
        topics = KafkaTopics(kafka, create=self._settings.worker.create_topics)
        names = []
        for topic in self._handlers:
            name = wait_topic(topic, kafka.group)
            topics.ensure(name, like=topic, room_bytes=ROOM_BYTES, compacted=True)
            if topics.is_compacted(name) is False:
                log.warning("wait.not_compacted", topic=name)
            names.append(name)
        others = [wait_topic(topic, kafka.group) for topic in self._others]
        left = left_over(topics, others, stopping=self._stopping)
        if left:
            log.warning("waits.left_over", topics=",".join(left))
            self._begin_to_write()
        names += left
        if not names:
            return None
        # A group of its own, as for retries: see `feedback.records.retry_group`.
        own = kafka.model_copy(update={"group": f"{kafka.group}.wait"})
        return KafkaSource(own, names)


def _wanting(handlers: Iterable[Handler]) -> Mapping[str, Handler]:
    return {one.topic: one for one in handlers if one.delivery is DeliveryKind.AT_LEAST_ONCE}


class Visible(Protocol):
    """Knows which topics there are."""

    def visible(self, names: Collection[str]) -> list[str]: ...


def left_over(
    topics: Visible,
    names: Collection[str],
    *,
    stopping: threading.Event,
    pause_s: float = ASK_AGAIN_S,
) -> list[str]:
    """Return those of these topics that are there, asked until Kafka answers; none at the end.

    A worker that reads none of them must not end because it could not ask.
    """
    while names and not stopping.is_set():
        try:
            return topics.visible(names)
        except KafkaUnavailable as error:
            log.debug("waits.not_asked", reason=str(error))
            stopping.wait(pause_s)
    return []


def _may_have_waited(one: Handler) -> bool:
    """Whether a handler that has no wait records may have had some, declared otherwise."""
    return one.delivery is not DeliveryKind.AT_LEAST_ONCE and one.dead_letters_of is None


def _make_ends(
    settings: Settings,
    handlers: Mapping[str, Handler],
    *,
    worker_id: str,
    outlives: bool,
    store: StatusStore,
    redis_away: Callable[[], bool],
    tell: Callable[[Iterable[StatusWrite]], None],
    outage: ServerOutage,
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
        kept=_wanting(handlers.values()).keys(),
        outcomes=[one.topic for one in handlers.values() if one.outcome_topic is not None],
        outlives=outlives,
        writer=writer,
        letters=posting,
        evidence=evidence,
        tell=tell,
        outage=outage,
        close=close,
    )
