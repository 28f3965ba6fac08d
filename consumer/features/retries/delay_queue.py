"""The wake-ups that were read and are not due, by partition: the next one, and its offset.

Pure but for its own state; belongs to the thread that reads. A partition of one fixed delay comes
in the order of its due times; where delays are drawn, a later record may be due first, so some are
in memory and the earliest of them goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.handlers.delivery import Delivery
from feedback.kafka.values import Partition

# So many records of one partition are in memory at most before it is paused: these are payloads.
WINDOW = 200
WINDOW_BYTES = 2_000_000


class WaitingWakeup(NamedTuple):
    """One wake-up that waits; `due_s` is monotonic."""

    due_s: float
    delivery: Delivery
    size_bytes: int


@dataclass(slots=True)
class _Place:
    held: dict[int, WaitingWakeup] = field(default_factory=dict)
    size_bytes: int = 0
    next_offset: int = 0

    @property
    def committable(self) -> int:
        return min(self.held, default=self.next_offset)


class DelayQueue:
    """The records in memory of each partition, by offset."""

    def __init__(self) -> None:
        self._places: dict[Partition, _Place] = {}

    def __len__(self) -> int:
        return sum(len(place.held) for place in self._places.values())

    def add(self, partition: Partition, offset: int, one: WaitingWakeup) -> None:
        """Hold a wake-up; one that is read again replaces its first reading."""
        place = self._pass(partition, offset)
        known = place.held.get(offset)
        place.size_bytes += one.size_bytes - (known.size_bytes if known else 0)
        place.held[offset] = one

    def skip(self, partition: Partition, offset: int) -> None:
        """Leave out a record that wakes nothing up."""
        self._pass(partition, offset)

    def take_due(
        self, now_s: float, most: int, lets: Callable[[str], bool] = lambda topic: True
    ) -> list[tuple[Partition, int, Delivery]]:
        """Remove and return due wake-ups, the longest overdue first, at most `most`.

        Args:
            lets: asked with a request's topic whether one more of it may go on.
        """
        due = sorted(
            (one.due_s, partition, offset)
            for partition, place in self._places.items()
            for offset, one in place.held.items()
            if one.due_s <= now_s
        )
        taken: list[tuple[Partition, int, Delivery]] = []
        for _, partition, offset in due:
            if len(taken) >= most:
                break
            place = self._places[partition]
            if not lets(place.held[offset].delivery.handler.topic):
                continue
            one = place.held.pop(offset)
            place.size_bytes -= one.size_bytes
            taken.append((partition, offset, one.delivery))
        return taken

    def next_due_s(self, without: Collection[str] = ()) -> float | None:
        """Return the monotonic time at which the next one is due.

        Args:
            without: topics of which none goes on now.
        """
        times = (
            one.due_s
            for place in self._places.values()
            for one in place.held.values()
            if not (without and one.delivery.handler.topic in without)
        )
        return min(times, default=None)

    def full(self) -> set[Partition]:
        return {
            partition
            for partition, place in self._places.items()
            if len(place.held) >= WINDOW or place.size_bytes >= WINDOW_BYTES
        }

    def offsets(self) -> Mapping[Partition, int]:
        """Return the next offset to commit of each partition: all before it went on."""
        return {partition: place.committable for partition, place in self._places.items()}

    def forget(self, partitions: Collection[Partition]) -> None:
        """Drop partitions: they are read again from their committed offsets."""
        for partition in partitions:
            self._places.pop(partition, None)

    def partitions(self) -> Iterator[Partition]:
        yield from list(self._places)

    def _pass(self, partition: Partition, offset: int) -> _Place:
        place = self._places.setdefault(partition, _Place())
        place.next_offset = max(place.next_offset, offset + 1)
        return place
