"""The state of a worker at one moment, and the loops that owe no progress then. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.features.pausing.paused import PausedTopic
from consumer.ops.health.doubts import OpenDoubts
from consumer.ops.health.progress import ALL, DISPATCH, HANDOVER, LEASE, TELLER


@dataclass(frozen=True, slots=True)
class Vitals:
    """A worker's state, as its parts showed it one after the other.

    Attributes:
        order_held: requests that wait for another one of their key, by topic.
        order_held_limit: at so many of a topic, no more of it is read.
        held: requests that are claimed and not yet finished in the journal.
        free_slots: jobs that the ready children would take now.
        children_late: ready children that do not start their jobs.
        children_late_s: for how long the first of them has not.
        replaced: children by the reason for which they were replaced.
        is_open: Kafka answered at the start, and every topic is there.
        is_joined: the group has given this worker its share, which may be none.
        lease_left_s: seconds, by our own clock; not positive when it is over.
        doubts: the group's, by topic, where this worker counted last.
        lag: records that wait in Kafka for this worker, by topic; none of which that is not known.
        refused: the faults of security that last, in sentences with their correction.
    """

    waiting: int
    waiting_limit: int
    held: int
    slots: int
    slots_busy: int
    free_slots: int
    children: int
    children_ready: int
    replaced: Mapping[str, int]
    is_open: bool
    is_joined: bool
    partitions: int
    kafka_away: bool
    redis_away: bool
    journal_away: bool
    lease_left_s: float
    untold: int
    is_draining: bool
    paused: tuple[PausedTopic, ...] = ()
    order_held: Mapping[str, int] = field(default_factory=dict)
    order_held_limit: int = 1
    order_held_s: float = 0.0
    children_late: int = 0
    children_late_s: float = 0.0
    doubts: tuple[OpenDoubts, ...] = ()
    lag: Mapping[str, int] = field(default_factory=dict)
    refused: tuple[str, ...] = ()

    @property
    def starts_nothing(self) -> bool:
        """Whether no child begins its jobs."""
        return 0 < self.children_ready <= self.children_late


class OldestRequest(NamedTuple):
    """The request that has been in the worker's hands for longest: at a stop, the one that blocks.

    Not its key: that may be a card number, and anybody may read the page.
    """

    request_id: str
    topic: str
    partition: int
    offset: int
    age_s: float
    is_running: bool


def excused(seen: Vitals) -> tuple[str, ...]:
    """Return the loops that cannot be expected to get on now.

    Redis and Kafka away excuse no other loop: the requests in the buffer can run without them. A
    worker that ends is bounded by `drain_timeout_s`, and by the service manager.
    """
    if seen.is_draining:
        return ALL
    may_start = seen.free_slots > 0 and not seen.journal_away and seen.lease_left_s > 0
    may_dispatch = may_start and seen.waiting > 0
    may_tell = seen.untold > 0 and not seen.redis_away
    owes = {
        DISPATCH: may_dispatch,
        HANDOVER: seen.starts_nothing,
        TELLER: may_tell,
        LEASE: not seen.journal_away,
    }
    return tuple(loop for loop, has_work in owes.items() if not has_work)
