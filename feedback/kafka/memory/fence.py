"""Writes records as the only owner of a name, in memory: the broker counts the takings of a name.

As with Kafka, a taking costs one offset of each partition, for a mark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from feedback.clock import epoch_ms
from feedback.kafka.fencing import Fenced
from feedback.kafka.memory.broker import NOWHERE, MemoryBroker
from feedback.kafka.memory.faults import name_refused
from feedback.kafka.memory.rights import GuardedKind
from feedback.kafka.outgoing import Outgoing, RecordRefused
from feedback.kafka.values import Partition
from feedback.records.envelope import Record

# As long as the other engines wait for one answer.
_ANSWER_S = 5.0
_WRITE = "Write"


class MemoryFence:
    """See `feedback.kafka.fencing.Fence`.

    Args:
        broker: the broker of this address.
        name: the transactional id.
    """

    def __init__(self, broker: MemoryBroker, name: str) -> None:
        self._broker = broker
        self._name = name
        self._epoch: int | None = None
        self._places: frozenset[Partition] = frozenset()

    @property
    def is_held(self) -> bool:
        """Whether the right to write is held, as far as this process knows."""
        return self._epoch is not None

    def take(self, places: Collection[Partition]) -> None:
        """Exclude all other writers from these partitions."""
        self._epoch = None
        self._epoch = self._broker.ask(
            "take", lambda: self._taken(places), limit_s=_ANSWER_S, changes=True
        )
        self._places = frozenset(places)

    def _taken(self, places: Collection[Partition]) -> int:
        self._require_right()
        logs = [self._broker.log(one, _WRITE) for one in places]
        self._broker.epochs[self._name] += 1
        for log in logs:
            log.mark()
        return self._broker.epochs[self._name]

    def write(
        self,
        topic: str,
        partition: int,
        records: Sequence[Outgoing],
        *,
        before_each: Callable[[], None],
    ) -> list[RecordRefused | None]:
        """Write records in their order; None for each that Kafka has, else the refusal."""
        place, epoch = (topic, partition), self._epoch
        if not records:
            return []
        if epoch is None or place not in self._places:
            raise Fenced(f"the right to write to {topic}-{partition} is not held")
        before_each()
        # Until the answer the right is in doubt; only an answer gives it back.
        self._epoch = None
        answers = self._broker.ask(
            "write", lambda: self._written(place, epoch, records), limit_s=_ANSWER_S, changes=True
        )
        self._epoch = epoch
        return answers

    def _written(
        self, place: Partition, epoch: int, records: Sequence[Outgoing]
    ) -> list[RecordRefused | None]:
        if self._broker.epochs[self._name] != epoch:
            raise Fenced(f"Kafka has another writer for {place[0]}-{place[1]}")
        self._require_right()
        self._broker.log(place, _WRITE)
        answers: list[RecordRefused | None] = []
        for one in records:
            answers.append(None)
            try:
                self._broker.store(
                    Record(*place, NOWHERE, epoch_ms(), one.key, one.value, one.headers)
                )
            except RecordRefused as refused:
                answers[-1] = refused
        return answers

    def _require_right(self) -> None:
        if not self._broker.rights.may("WRITE", GuardedKind.TRANSACTIONAL_ID, self._name):
            raise name_refused(self._broker.address, self._name)


class MemoryFences:
    """See `feedback.kafka.fencing.Fences`.

    Args:
        broker: the broker of this address.
    """

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker

    def fence(self, name: str) -> MemoryFence:
        """Return the fence of a name."""
        return MemoryFence(self._broker, name)

    def end(self, topic: str, partition: int) -> int:
        """Return the offset behind a partition's last record."""
        place = (topic, partition)
        return self._broker.ask(
            "end", lambda: self._broker.log(place, "Describe").end, limit_s=_ANSWER_S
        )

    def close(self) -> None:
        """Close the connection."""
