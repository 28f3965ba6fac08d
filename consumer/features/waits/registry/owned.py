"""A partition of a wait topic that is this registry's, for now."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.features.waits.registry.facts import Expiry, Place
from feedback.kafka.fencing import Fence


@dataclass(slots=True)
class Owned:
    """Its rows; thrown away, and read again, when in doubt.

    Attributes:
        source: the topic whose requests wait there.
        position: how far the table has read it.
        lease_end_s: until when it certainly stays ours, on the monotonic clock.
        fence: the right to write its letters and tombstones.
        begun: requests on their way to the dead letters.
        refused: offsets of those whose letter Kafka does not take as it is.
        lost: offsets of due records that Kafka does not have any more.
        rests_until_s: nothing is moved before, on the monotonic clock.
    """

    place: Place
    source: str
    position: int
    lease_end_s: float
    fence: Fence
    begun: list[Expiry]
    refused: set[int] = field(default_factory=set)
    lost: set[int] = field(default_factory=set)
    rests_until_s: float = 0.0

    @property
    def unfinished(self) -> bool:
        """Whether something was begun that has to be gone on with."""
        return any(one.offset not in self.refused for one in self.begun)
