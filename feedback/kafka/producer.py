"""A producer of a worker's own records, as `KafkaWriter` needs it from an engine."""

from __future__ import annotations

from typing import Protocol

from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import Outgoing


class SentRecord(Protocol):
    """A record that was handed to a producer."""

    def result(self, timeout_s: float) -> KafkaUnavailable | None:
        """Return None when Kafka has it, else the error, waiting for it at most so long.

        `RecordRefused`: Kafka does not have it. Any other error: it may.
        """


class BatchProducer(Protocol):
    """Writes records in batches; connected. Belongs to one thread.

    Of two records of one partition the later may be there first where a try of the other has
    failed: for their order the result of the first is to be known before the second is sent.

    It gives a record up after the time that it was made with, and does nothing in its own right to
    keep a record that is written twice from being there twice.
    """

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has.

        Raises:
            RecordRefused: no topic can have this name.
            KafkaUnavailable: Kafka or the topic is away.
        """

    def send(self, record: Outgoing, partition: int | None) -> SentRecord:
        """Hand a record over, and return at once where its topic is known.

        Args:
            partition: it has that one; None: the key decides.

        Raises:
            RecordRefused: it is malformed for Kafka.
            KafkaUnavailable: Kafka or the topic is away.
        """

    def flush(self, timeout_s: float) -> None:
        """Return when the result of each is known, or the time is over."""

    def close(self, timeout_s: float) -> None:
        """Close the connection; a record without an acknowledgement may or may not be written."""
