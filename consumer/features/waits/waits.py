"""Everything of a worker that `delivery="at_least_once"` needs beside its road.

A handler that was declared so before, and is not any more, has left wait records behind: of
requests that its workers gave back, or died with. They are taken over as well, wherever the topic
is there; the journal says which of them may run.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import ClassVar, Protocol

from consumer.features.dead_letters.letter_writer import letter_writer_of
from consumer.features.outgoing.recent_runs import RecentFailures
from consumer.features.outgoing.record_writer import OutgoingListener
from consumer.features.waits.takeover_reader import TakeoverReader
from consumer.features.waits.tombstone_writer import TombstoneWriter, is_kept
from consumer.features.waits.wait_record import wait_topic
from consumer.features.waits.write_ahead import ROOM_BYTES, WaitRecordWriter, WriteAhead
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery
from consumer.journal.records import Row
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.status.availability import ServerOutage
from feedback.errors import KafkaUnavailable
from feedback.kafka.source import KafkaSource
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.statuses import StatusWrite

log = EventLog("onceward.waits")

ASK_AGAIN_S = 5.0


def make(core: Core) -> Sequence[Feature]:
    """Return the wait topics of a worker, unless its handlers cannot have had any."""
    if not any(is_kept(one) or _may_have_waited(one) for one in core.handlers):
        return ()
    waits = Waits(core)
    return (waits, waits.write_ahead) if any(map(is_kept, core.handlers)) else (waits,)


class Waits(Feature, OutgoingListener):
    """The wait topics of a worker's handlers; where there are none, the reading ends at once.

    Attributes:
        write_ahead: writes wait records before offsets are committed.
    """

    name: ClassVar[str] = "waits"
    stop_s: ClassVar[float] = 12.0

    def __init__(self, core: Core) -> None:
        self._core = core
        self._handlers = {one.topic: one for one in core.handlers if is_kept(one)}
        self._others = {one.topic: one for one in core.handlers if _may_have_waited(one)}
        self._is_writing = False
        self._stopping = threading.Event()
        known = {**self._handlers, **self._others}
        outage = ServerOutage("wait_records")
        self._wait_records = WaitRecordWriter(
            group=core.group,
            writer=KafkaWriter(core.settings.kafka),
            topics=core.kafka_topics(),
        )
        recent = RecentFailures()
        self._tombstones = TombstoneWriter(
            core,
            known,
            writer=KafkaWriter(core.settings.kafka),
            letters=letter_writer_of(core, recent, stopping=lambda: False),
            recent=recent,
            outage=outage,
        )
        self.write_ahead = WriteAhead(
            worker_id=core.worker_id,
            topics=self._handlers.keys(),
            wait_records=self._wait_records,
            outage=outage,
            give_back=self._tombstones.given_back,
            has_journal=core.outlives,
        )
        self._takeover_reader = TakeoverReader(
            core,
            known,
            takings=self._wait_records,
            tombstones=self._tombstones,
            open_source=self._open_source,
        )

    def told(self, writes: Sequence[StatusWrite]) -> None:
        """Have a tombstone follow each final status."""
        self._tombstones.hear(writes)

    def done(self, kind: str, what: str, rows: Sequence[Row]) -> None:
        self._tombstones.done(kind, rows)

    def given_up(self, deliveries: Sequence[Delivery]) -> None:
        """Give back requests that this worker does not run: the first worker to come may."""
        self._tombstones.given_back(deliveries)

    def start(self) -> None:
        if self._handlers:
            self._begin_to_write()
        self._takeover_reader.start()

    def _begin_to_write(self) -> None:
        if not self._is_writing:
            self._is_writing = True
            self._tombstones.start()

    def leave(self) -> None:
        self._stopping.set()
        self._takeover_reader.leave()

    def has_left(self, timeout_s: float) -> bool:
        return self._takeover_reader.has_left(timeout_s)

    def stop(self, timeout_s: float) -> None:
        """End: write the waiting messages while Kafka answers; the next keepers find the rest."""
        self.leave()
        self._takeover_reader.has_left(timeout_s / 3)
        if self._is_writing:
            self._tombstones.stop(2 * timeout_s / 3)
        self._wait_records.close()

    def _open_source(self) -> KafkaSource | None:
        kafka, topics = self._core.settings.kafka, self._core.kafka_topics()
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


class VisibleTopics(Protocol):
    """Knows which topics there are."""

    def visible(self, names: Collection[str]) -> list[str]: ...


def left_over(
    topics: VisibleTopics,
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
    return not is_kept(one) and one.dead_letters_of is None
