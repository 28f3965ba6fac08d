"""Single questions to brokers that only some callers have."""

from __future__ import annotations

from typing import Protocol

# A stretch of offsets: the first, and the one behind the last.
SilentOffsets = tuple[int, int]


class RightsProbe(Protocol):
    """Asks whether Kafka lets this user do something, without doing it. Belongs to one thread.

    Every question may raise `KafkaUnavailable`.
    """

    def may_describe_group(self, group: str) -> bool:
        """Say whether this user may ask about a group."""

    def may_join_group(self, group: str) -> bool:
        """Say whether this user may be a member of a group; True where Kafka cannot say now."""

    def may_write_as(self, transactional_id: str) -> bool:
        """Say whether this user may write under a transactional id; True where Kafka cannot say.

        Args:
            transactional_id: one that nobody has.
        """

    def close(self) -> None:
        """Close the connection."""


class SilenceProbe(Protocol):
    """Finds the offsets of a partition that hold no records. Belongs to one thread."""

    def silent(self, topic: str, partition: int, first: int, after: int) -> list[SilentOffsets]:
        """Return the stretches of offsets that hold no committed records, in order.

        Args:
            first, after: the range of offsets to check; the log's end ends it as well.

        Raises:
            KafkaUnavailable: the broker does not answer, or no longer has these offsets.
        """

    def close(self) -> None:
        """Close the connection."""
