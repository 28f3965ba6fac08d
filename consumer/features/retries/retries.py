"""Everything of a worker that retries need beside its road, started and ended together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from consumer.features.retries import next_run
from consumer.features.retries.headers import retry_topics
from consumer.features.retries.overdue import OverdueRetries
from consumer.features.retries.retry_reader import RetryReader
from consumer.features.retries.retry_sender import RetrySender
from consumer.handlers.delivery import Delivery
from consumer.journal import Finish
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from feedback.clock import epoch_ms
from feedback.kafka.source import KafkaSource
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.records.retry_group import retry_group

log = EventLog("onceward.retries")


def make(core: Core) -> Sequence[Feature]:
    """Return the retries of a worker.

    Always: a handler that had `retries=` before has left rows that wait for their next run.
    """
    return (Retries(core),)


class Retries(Feature):
    """The retry topics of a worker's handlers; where none has retries, nothing is read.

    Raises:
        SettingsError: the name of a retry topic is too long.
    """

    name: ClassVar[str] = "retries"
    stop_s: ClassVar[float] = 9.0

    def __init__(self, core: Core) -> None:
        self._core = core
        self._topics = retry_topics(core.handlers, core.group)
        self._wakeups = RetrySender(KafkaWriter(core.settings.kafka), group=core.group)
        self._tiers = RetryReader(
            core, topics=self._topics, buffer=core.scheduler.due, open_source=self._open_source
        )
        self._overdue = OverdueRetries(core, send=self._wakeups.send)

    def judged(self, finish: Finish, delivery: Delivery) -> Finish:
        return next_run.ended(finish, delivery, now_ms=epoch_ms())

    def ended(self, one: Settlement) -> None:
        """Send the wake-up of the next run, whose RETRYING row is committed."""
        if one.due_at is not None and one.finish is not None:
            self._wakeups.send([next_run.wakeup(one.delivery, one.finish, due_at=one.due_at)])

    def sweep(self) -> None:
        """Wake up forgotten retries."""
        self._overdue.sweep()

    def start(self) -> None:
        if self._topics:
            self._wakeups.start()
            self._tiers.start()

    def leave(self) -> None:
        self._tiers.leave()

    def stop(self, timeout_s: float) -> None:
        """End: send waiting wake-ups while Kafka answers. A sweep finds due ones without a slot."""
        self._tiers.leave()
        if self._topics and not self._tiers.has_left(timeout_s / 2):
            log.warning("retries.not_ended")
        self._wakeups.stop(timeout_s / 2)

    def _open_source(self) -> KafkaSource:
        topics = self._core.kafka_topics()
        for name, (handler, _) in self._topics.items():
            topics.ensure(name, like=handler.dead_letters_of or handler.topic)
        group = retry_group(self._core.group)
        own = self._core.settings.kafka.model_copy(update={"group": group})
        return KafkaSource(own, tuple(self._topics))
