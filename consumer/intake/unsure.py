"""Records that were dropped after a commit of which nobody could say whether it is made.

While their partition is ours they are read again, from where it was rewound to. If it goes before
that, its next owner goes on from the committed offset: behind them, where the commit was made after
all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from consumer.intake.buffer import Received
from feedback.kafka.values import Partition, Place


class GroupPositions(Protocol):
    """Where the partitions of a group are read on."""

    def position(self, partition: Partition) -> int: ...

    def committed(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]: ...

    def is_stable(self) -> bool: ...


class UnsureRecords:
    """Remembers them until they are read again, or known to be read by nobody.

    Belongs to the intake's thread.
    """

    def __init__(self) -> None:
        self._dropped: dict[Place, Received] = {}
        self._parted: dict[Place, Received] = {}

    def note(self, dropped: Iterable[Received]) -> None:
        """Take in records that are to be read again."""
        for one in dropped:
            self._parted.pop(_place(one), None)
            self._dropped[_place(one)] = one

    def forget(self, read: Iterable[Received]) -> None:
        """Hear of records that are read and committed."""
        for one in read:
            self._dropped.pop(_place(one), None)
            self._parted.pop(_place(one), None)

    def part(self, revoked: Collection[Partition], owned: Collection[Partition]) -> None:
        """Hear after each poll of the partitions that went, back by now or not, and of ours.

        An eager group of kafka-python says that a partition goes while that is still ours, and says
        nothing when it has gone.
        """
        gone = [one for one in self._dropped if one[:2] in revoked or one[:2] not in owned]
        for place in gone:
            self._parted[place] = self._dropped.pop(place)

    @property
    def topics(self) -> list[str]:
        """The topics with records whose partition was taken away; a copy."""
        return sorted({place[0] for place in self._parted})

    def take_unread(self, source: GroupPositions, topic: str) -> list[Received]:
        """Remove and return those of a topic whose partition went and that nobody reads again.

        It is empty while the group shares out its partitions: nobody knows whose they will be.

        Raises:
            KafkaUnavailable: nobody knows yet; they stay.
        """
        if not source.is_stable():
            return []
        parted = {place: one for place, one in self._parted.items() if place[0] == topic}
        committed = source.committed(sorted({place[:2] for place in parted}))
        back: dict[Place, Received] = {}
        unread: list[Received] = []
        for place, one in parted.items():
            if 0 <= source.position(place[:2]) <= place[2]:
                # The partition came back, and is read on from here.
                back[place] = one
            elif place[2] < committed.get(place[:2], 0):
                unread.append(one)
        self._dropped |= back
        for place in parted:
            del self._parted[place]
        return unread


def _place(one: Received) -> Place:
    return (*one.record[:3],)
