"""Records to be written, and how writing one can fail."""

from __future__ import annotations

from typing import NamedTuple

from feedback.errors import KafkaUnavailable


class Outgoing(NamedTuple):
    """A record to be written.

    Args:
        partition: its partition, if the topic has it; otherwise, and with None, the key decides.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def size_bytes(self) -> int:
        """About its share of a batch, in bytes."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers

    def __repr__(self) -> str:
        return f"Outgoing({self.topic})"  # no payload in a log


class NotAcknowledged(KafkaUnavailable):
    """No acknowledgement came in time: Kafka, the topic or its leader is away."""


class RecordRefused(KafkaUnavailable):
    """The broker never takes this record as it is."""


class RecordTooLarge(RecordRefused):
    """The record is larger than the topic's limit."""
