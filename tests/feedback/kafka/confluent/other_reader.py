"""A reader of the other library, which gets of each partition whatever a test says."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace

from feedback.kafka.errors import KafkaFault
from feedback.kafka.values import Partition


class OtherReader:
    """Its clock moves as it polls.

    Attributes:
        now_s: the time.
        gives: the partitions of which it gets a record.
        passes: where partitions are read on that have offsets without a record.
        ends: what leaders say; of those that are not named, none answers.
        faults: what is raised of some.
        asked: the partitions that were to be read, one after the other.
        closed: how often it was closed.
    """

    def __init__(self) -> None:
        self.now_s = 100.0
        self.gives: set[Partition] = set()
        self.passes: dict[Partition, int] = {}
        self.ends: dict[Partition, int] = {}
        self.faults: dict[Partition, KafkaFault] = {}
        self.asked: list[Partition] = []
        self.closed = 0
        self._at: tuple[Partition, int] | None = None

    def assign(self, begins: Mapping[Partition, int]) -> None:
        """Read one."""
        ((place, _),) = begins.items()
        self.asked.append(place)
        if place in self.faults:
            raise self.faults[place]
        (self._at,) = begins.items()

    def poll(self, timeout_s: float, *, max_records: int) -> list[SimpleNamespace]:
        """Return a record, or none after a while."""
        assert self._at is not None
        place, offset = self._at
        if place in self.gives:
            return [SimpleNamespace(offset=offset)] * max_records
        self.now_s += timeout_s
        self._at = place, self.passes.get(place, offset)
        return []

    def position(self, place: Partition) -> int:
        """Return the next offset to read."""
        assert self._at is not None and self._at[0] == place
        return self._at[1]

    def end(self, place: Partition) -> int | None:
        """Return the end."""
        return self.ends.get(place)

    def close(self) -> None:
        """End."""
        self.closed += 1
