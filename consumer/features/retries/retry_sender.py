"""The thread that sends wake-ups to the retry topics.

Nothing waits for a send, and memory is bounded: a sweep finds the rows whose record was not sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from consumer.features.outgoing.sending_thread import SendingThread
from consumer.features.retries.headers import WakeUp, retry_topic, wakeup_headers
from consumer.handlers.backoff import topic_delay_ms
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import Outgoing, RecordRefused
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.outages import OutageLog

log = EventLog("onceward.retries")

BACKLOG_LIMIT = 10_000
# Failures come in crowds.
GATHER_S = 0.05


class RetrySender:
    """Sends each wake-up until Kafka has it, or refuses it for good."""

    def __init__(self, writer: KafkaWriter, *, group: str) -> None:
        self._writer = writer
        self._group = group
        self._outage = OutageLog(log, "retries.not_sent", "retries.sent_again")
        self._sending = SendingThread[WakeUp](
            "wakeups",
            write=self._write,
            close=writer.close,
            gather_s=GATHER_S,
            limit=BACKLOG_LIMIT,
        )

    def start(self) -> None:
        self._sending.start()

    def send(self, wakeups: Iterable[WakeUp]) -> None:
        """Take over wake-ups; returns at once. Any thread."""
        self._sending.send(wakeups)

    def stop(self, timeout_s: float) -> None:
        """Send waiting wake-ups while Kafka answers, and end the thread."""
        self._sending.stop(timeout_s)

    def _write(self, batch: Sequence[WakeUp]) -> list[WakeUp]:
        """Return the wake-ups to try again."""
        records = [wakeup_record(one, group=self._group) for one in batch]
        left: list[WakeUp] = []
        away: KafkaUnavailable | None = None
        for one, error in zip(batch, self._writer.write(records), strict=True):
            if isinstance(error, RecordRefused):
                # A sweep wakes it up without a record.
                log.error("retry.refused", request_id=one.delivery.request_id, reason=str(error))
            elif error is not None:
                left.append(one)
                away = error
        if away is None:
            self._outage.ends()
        else:
            self._outage.begins(away)
        return left


def wakeup_record(one: WakeUp, *, group: str) -> Outgoing:
    """Return the record that wakes a request up; its key and value are those that were sent."""
    record, handler = one.delivery.record, one.delivery.handler
    delay_ms = one.delay_ms
    if handler.retries is not None:
        delay_ms = topic_delay_ms(handler.retries, one.delay_ms)
    return Outgoing(
        topic=retry_topic(handler.topic, group, delay_ms),
        # Where its source stood, so that a key stays in one partition.
        partition=record.partition,
        key=record.key,
        value=record.value,
        headers=wakeup_headers(one, group=group),
    )
