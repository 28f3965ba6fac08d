"""Everything of a worker that retries need beside its road, started and ended together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from consumer.features.pausing.pausing import NEVER_PAUSED, Pausing
from consumer.features.retries.tiers import Tiers
from consumer.features.retries.topics import retry_topics
from consumer.features.retries.wakeups import WakeUps
from consumer.handlers.declaration import Handler
from consumer.intake.buffer import Buffer
from feedback.kafka.source import KafkaSource
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.records.retry_group import retry_group
from feedback.settings.settings import Settings

log = EventLog("onceward.retries")

END_S = 5.0


class Retries:
    """The retry topics of a worker's handlers; where none has retries, nothing is started.

    Args:
        settings: brokers, group, and whether to make missing topics.
        handlers: all of the worker.
        wake: wakes the worker's loop.
        on_end: called with the error that ended the reading, or None after `stop`.
        pausing: knows the topics of which nothing goes on now.

    Attributes:
        due: retries that wait for a slot.

    Raises:
        SettingsError: the name of a retry topic is too long.
    """

    def __init__(
        self,
        settings: Settings,
        handlers: Iterable[Handler],
        *,
        wake: Callable[[], None],
        on_end: Callable[[BaseException | None], None],
        pausing: Pausing = NEVER_PAUSED,
    ) -> None:
        self._settings = settings
        self._topics = retry_topics(handlers, settings.kafka.group)
        self.due = Buffer(settings.worker.buffer_size)
        self._wakeups = WakeUps(KafkaWriter(settings.kafka), group=settings.kafka.group)
        self.send = self._wakeups.send
        self._tiers = Tiers(
            topics=self._topics,
            buffer=self.due,
            open_source=self._open_source,
            on_due=wake,
            on_end=on_end,
            pausing=pausing,
        )

    def start(self) -> None:
        """Begin to read and to send."""
        if self._topics:
            self._wakeups.start()
            self._tiers.start()

    def stop_reading(self) -> None:
        """Leave the group; returns at once."""
        self._tiers.stop()

    def stop(self) -> None:
        """End: send what waits while Kafka answers. What was due and found no slot is swept."""
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
