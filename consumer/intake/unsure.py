"""Records that were dropped after a commit of which nobody could say whether it is made.

While their partition is ours they are read again, from where it was rewound to. If it goes before
that, its next owner goes on from the committed offset: behind them, where the commit was made after
all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from consumer.intake.buffer import Received
from feedback.kafka.values import Partition

Place = tuple[str, int, int]


class Positions(Protocol):
    """Where the partitions of a group are read on."""

    def position(self, partition: Partition) -> int: ...

    def committed(self, partitions: Sequence[Partition]) -> Mapping[Partition, int]: ...


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

    def part(self, revoked: Collection[Partition]) -> None:
        """Hear of partitions that were taken away, back by now or not."""
        for place in [one for one in self._dropped if one[:2] in revoked]:
            self._parted[place] = self._dropped.pop(place)

    def take_unread(self, source: Positions) -> list[Received]:
        """Remove and return those of partitions that were taken away that nobody reads again.

        Raises:
            KafkaUnavailable: nobody knows yet; they stay.
        """
        if not self._parted:
            return []
        partitions = sorted({place[:2] for place in self._parted})
        committed = source.committed(partitions)
        parted, self._parted = self._parted, {}
        unread: list[Received] = []
        for place, one in parted.items():
            if 0 <= source.position(place[:2]) <= place[2]:
                # The partition came back, and is read on from here.
                self._dropped[place] = one
            elif place[2] < committed.get(place[:2], 0):
                unread.append(one)
        return unread


def _place(one: Received) -> Place:
    return (*one.record[:3],)
