"""Single questions that only some callers have, in memory."""

from __future__ import annotations

from feedback.kafka.errors import OffsetGone
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.faults import said
from feedback.kafka.memory.rights import GuardedKind
from feedback.kafka.probes import SilentOffsets

# As long as the other engines wait for one answer.
_ANSWER_S = 5.0


class MemoryRightsProbe:
    """See `feedback.kafka.probes.RightsProbe`.

    Args:
        broker: the broker of this address.
        timeout_s: how long Kafka may take for an answer.
    """

    def __init__(self, broker: MemoryBroker, timeout_s: float) -> None:
        self._broker = broker
        self._limit_s = timeout_s

    def may_describe_group(self, group: str) -> bool:
        """Say whether this user may ask about a group."""
        return self._may("may_describe_group", "DESCRIBE", GuardedKind.GROUP, group)

    def may_join_group(self, group: str) -> bool:
        """Say whether this user may be a member of a group."""
        return self._may("may_join_group", "READ", GuardedKind.GROUP, group)

    def may_write_as(self, transactional_id: str) -> bool:
        """Say whether this user may write under a transactional id."""
        return self._may("may_write_as", "WRITE", GuardedKind.TRANSACTIONAL_ID, transactional_id)

    def _may(self, call: str, operation: str, kind: GuardedKind, name: str) -> bool:
        rights = self._broker.rights
        return self._broker.ask(
            call, lambda: rights.may(operation, kind, name), limit_s=self._limit_s
        )

    def close(self) -> None:
        """Close the connection."""


class MemorySilences:
    """See `feedback.kafka.probes.SilenceProbe`.

    Args:
        broker: the broker of this address.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def silent(self, topic: str, partition: int, first: int, after: int) -> list[SilentOffsets]:
        """Return the stretches of offsets that hold no committed records, in order."""

        def answer() -> list[SilentOffsets]:
            log = self._broker.log((topic, partition), "Read")
            if not log.begin <= first <= log.end:
                words = f"OffsetOutOfRangeError {first} of {topic}-{partition}"
                raise said(OffsetGone, self._broker.address, words)
            return log.silent(first, after)

        return self._broker.ask("silent", answer, limit_s=_ANSWER_S)

    def close(self) -> None:
        """Close the connection."""
