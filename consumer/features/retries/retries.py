"""Everything of a worker that retries need beside its road, started and ended together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from consumer.features.retries import following
from consumer.features.retries.overdue import OverdueRetries, Source
from consumer.features.retries.tiers import Tiers
from consumer.features.retries.topics import retry_topics
from consumer.features.retries.wakeups import WakeUps
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Buffer
from consumer.intake.gate import Gate
from consumer.journal import Finish, Journal, Row
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from consumer.status import status_messages as telling
from feedback.clock import epoch_ms
from feedback.kafka.source import KafkaSource
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.records.retry_group import retry_group
from feedback.settings.settings import Settings
from feedback.statuses import StatusWrite

log = EventLog("onceward.retries")

END_S = 5.0


class Retries(Feature):
    """The retry topics of a worker's handlers; where none has retries, nothing is started.

    Args:
        settings: brokers, group, and whether to make missing topics.
        handlers: all of the worker.
        due: retries that wait for a slot.
        journal: the sweeper's.
        payloads: makes deliveries of rows, for the sweep.
        tell: tells clients.
        wake: wakes the worker's loop.
        on_end: called with the error that ended the reading, or None after `stop`.
        gates: close topics, of which nothing goes on then.

    Raises:
        SettingsError: the name of a retry topic is too long.
    """

    def __init__(
        self,
        settings: Settings,
        handlers: Iterable[Handler],
        *,
        due: Buffer,
        journal: Journal,
        payloads: Source,
        tell: Callable[[Iterable[StatusWrite]], None],
        wake: Callable[[], None],
        on_end: Callable[[BaseException | None], None],
        gates: Sequence[Gate],
    ) -> None:
        self._settings = settings
        handlers = tuple(handlers)
        self._topics = retry_topics(handlers, settings.kafka.group)
        self._tell = tell
        self._wakeups = WakeUps(KafkaWriter(settings.kafka), group=settings.kafka.group)
        self._tiers = Tiers(
            topics=self._topics,
            buffer=due,
            open_source=self._open_source,
            on_due=wake,
            on_end=on_end,
            gates=gates,
        )
        self._overdue = OverdueRetries(
            journal=journal,
            handlers={one.topic: one for one in handlers},
            payloads=payloads,
            send=self._wakeups.send,
            buffer=due,
            on_due=wake,
            tell_ended=self._tell_ended,
            gates=gates,
        )

    def judged(self, finish: Finish, delivery: Delivery) -> Finish:
        """Return how a run is to end: RETRYING, where another one follows by itself."""
        return following.ended(finish, delivery, now_ms=epoch_ms())

    def ended(self, one: Settlement) -> None:
        """Send the wake-up of the next run, whose RETRYING row is committed."""
        if one.due_at is not None and one.finish is not None:
            self._wakeups.send([following.wakeup(one.delivery, one.finish, due_at=one.due_at)])

    def sweep(self) -> None:
        """Wake up forgotten retries.

        Raises:
            JournalUnavailable: it is the next sweep's business.
        """
        self._overdue.sweep()

    def _tell_ended(self, rows: Iterable[Row]) -> None:
        self._tell([telling.from_row(row) for row in rows])

    def start(self) -> None:
        """Begin to read and to send."""
        if self._topics:
            self._wakeups.start()
            self._tiers.start()

    def stop_reading(self) -> None:
        """Leave the group; returns at once."""
        self._tiers.stop()

    def stop(self) -> None:
        """End: send waiting wake-ups while Kafka answers. A sweep finds due ones without a slot."""
        self._tiers.stop()
        if self._topics and not self._tiers.join(END_S):
            log.warning("retries.not_ended")
        self._wakeups.stop()

    def _open_source(self) -> KafkaSource:
        kafka = self._settings.kafka
        topics = KafkaTopics(kafka, create=self._settings.worker.create_topics)
        for name, (handler, _) in self._topics.items():
            topics.ensure(name, like=handler.dead_letters_of or handler.topic)
        own = kafka.model_copy(update={"group": retry_group(kafka.group)})
        return KafkaSource(own, tuple(self._topics))
