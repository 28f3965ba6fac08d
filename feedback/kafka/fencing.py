"""The right to be the only writer of a partition, as the registry needs it from an engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import Outgoing, RecordRefused
from feedback.kafka.values import Partition


class Fenced(KafkaUnavailable):
    """Another process has taken the name since; nothing was written."""


class Fence(Protocol):
    """The right to write under a name; see the engine for how the broker keeps it."""

    @property
    def is_held(self) -> bool:
        """Whether the right to write is held, as far as this process knows."""

    def take(self, places: Collection[Partition]) -> None:
        """Exclude all other writers from these partitions; return when they are excluded.

        So a record of an earlier owner stands before the partition's end, or never will.

        Raises:
            Fenced: another process takes the name at the same time.
            KafkaUnavailable: Kafka is away, or refuses; an earlier owner may still write.
        """

    def write(
        self,
        topic: str,
        partition: int,
        records: Sequence[Outgoing],
        *,
        before_each: Callable[[], None],
    ) -> list[RecordRefused | None]:
        """Write records in their order; None for each that Kafka has, else the refusal.

        Args:
            partition: one that was taken; the records' own are ignored.
            before_each: called right before each request; an error of it ends the writing.

        Raises:
            Fenced: another has taken the name; records that were not acknowledged were not written.
            KafkaUnavailable: the outcome of some is unknown: take the name, and read the partition.
        """


class Fences(Protocol):
    """Gives fences over one connection. Belongs to one thread."""

    def fence(self, name: str) -> Fence:
        """Return the fence of a name: the transactional id; it may have one writer only."""

    def end(self, topic: str, partition: int) -> int:
        """Return the offset behind a partition's last record, even of an open transaction.

        Raises:
            KafkaUnavailable: the partition has no leader now.
        """

    def close(self) -> None:
        """Close the connection; a later question makes a new one."""
