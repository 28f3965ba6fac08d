"""The Kafka of a client in memory: records wait for a bench, and a send fails where told."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from feedback.clock import epoch_ms
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown
from feedback.records.envelope import Record


@dataclass(frozen=True, slots=True)
class SendFailure:
    """The failure of one send.

    Attributes:
        arrives: the record is there nevertheless, and Kafka's answer is lost.
    """

    reason: str
    is_unknown: bool
    arrives: bool = False


@dataclass(frozen=True, slots=True)
class HandedOver:
    """A record that was handed over."""

    failure: SendFailure | None

    async def ending(self) -> object:
        """Return when Kafka has it.

        Raises:
            RecordUnknown: its answer is lost.
        """
        if self.failure is not None:
            raise RecordUnknown(self.failure.reason)
        return None

    def take_back(self) -> bool:
        """Return False: it has gone."""
        return False


class MemorySender:
    """Takes records as `feedback.kafka.sending.KafkaSender` does.

    Attributes:
        failures: of the next sends, one for each, in order.
        records: those that arrived, and that nobody has read.
    """

    def __init__(self) -> None:
        self.failures: deque[SendFailure] = deque()
        self.records: deque[Record] = deque()
        self._offset = 0

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        deadline_s: float | None = None,
    ) -> HandedOver:
        """Take one record.

        Raises:
            RecordNotSent: the test wants it so.
        """
        failure = self.failures.popleft() if self.failures else None
        if failure is not None and not failure.is_unknown:
            raise RecordNotSent(failure.reason)
        if failure is None or failure.arrives:
            record = Record(topic, 0, self._offset, epoch_ms(), key, value, tuple(headers))
            self._offset += 1
            self.records.append(record)
        return HandedOver(failure)

    def close(self) -> None:
        """Do nothing."""
