"""Gates: whether requests of a topic may come in and run now. Readers and the loop ask them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from feedback.kafka.values import Partition
from feedback.records.envelope import Record

# Clients hear this of requests that were given up because a gate had closed their topic.
TOPIC_PAUSED = "TOPIC_PAUSED"


class Gate:
    """Closes topics for a while; this one closes none. Any thread may ask.

    Attributes:
        closed: topics whose requests do not run now. It is replaced as a whole, so that it is read
            without a lock.
    """

    closed: frozenset[str] = frozenset()

    @property
    def unread(self) -> frozenset[str]:
        """The closed topics of which nothing is to be read now."""
        return self.closed

    def lets(self, topic: str) -> bool:
        """Return whether one more request of this topic may come in.

        A gate may let a single request of a closed topic in, to see how it does now.
        """
        return topic not in self.closed


class Gates:
    """Several gates as one: a topic is open where none of them has closed it.

    Args:
        gates: all of a worker; those that are added to this list later count as well.
    """

    def __init__(self, gates: Sequence[Gate] = ()) -> None:
        self._gates = gates

    def is_closed(self, topic: str) -> bool:
        """Return whether requests of this topic wait."""
        return any(topic in one.closed for one in self._gates)

    @property
    def unread(self) -> frozenset[str]:
        """The topics of which nothing is to be read now."""
        return frozenset[str]().union(*(one.unread for one in self._gates))

    def lets(self, topic: str) -> bool:
        """Return whether one more request of this topic may come in."""
        return all(one.lets(topic) for one in self._gates)

    def sift(self, records: Iterable[Record]) -> tuple[list[Record], dict[Partition, int]]:
        """Return the records of a poll that may come in, and where the rest of each partition
        begins."""
        let_in: list[Record] = []
        begins: dict[Partition, int] = {}
        for one in records:
            partition = (one.topic, one.partition)
            # Behind a record that goes back all of its partition goes back, in any case.
            if partition in begins or not self.lets(one.topic):
                begins.setdefault(partition, one.offset)
            else:
                let_in.append(one)
        return let_in, begins
