"""Finds which of the workers in wait records are alive, by their heartbeats in Redis.

A worker without a heartbeat may have lost it together with Redis' data, and writes it again within
a third of its length. So a worker counts as gone only after it was missing for a while.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, Protocol

from consumer.features.waits.wait_record import GIVEN_BACK, wait_topic
from consumer.handlers.declaration import DeliveryKind, Handler
from feedback.kafka.topics import KafkaTopics
from feedback.settings.settings import Settings


def wait_topic_faults(settings: Settings, handlers: Iterable[Handler]) -> Iterator[str]:
    """Yield a sentence for each fault."""
    topics = KafkaTopics(settings.kafka, create=False)
    for one in handlers:
        if one.delivery is not DeliveryKind.AT_LEAST_ONCE:
            continue
        name = wait_topic(one.topic, settings.kafka.group)
        partitions = topics.partitions(name)
        if not partitions:
            if not settings.worker.create_topics:
                yield f"topic {name} does not exist"
            continue
        if topics.is_compacted(name) is False:
            yield (
                f"topic {name} is not compacted: what is unfinished is lost when its records are "
                "too old, and all that ever was is read at each start; set cleanup.policy=compact"
            )
        wanted = topics.partitions(one.topic)
        if partitions < wanted:
            yield (
                f"topic {name} has {partitions} partitions and {one.topic} {wanted}: fewer workers "
                "share what dead ones left; make it anew while it is empty"
            )


class HeartbeatStore(Protocol):
    """Where workers say that they live."""

    def alive(self, worker_ids: Collection[str]) -> set[str]: ...


class SortedHolders(NamedTuple):
    """Holders, sorted.

    Args:
        gone: the workers that are not alive, and `NOBODY`.
        living: those that have a heartbeat.
        missing: those that have none, and perhaps will again in a moment.
    """

    gone: tuple[str, ...]
    living: tuple[str, ...]
    missing: tuple[str, ...]


class LiveWorkers:
    """Looks for heartbeats. Belongs to one thread.

    Args:
        grace_s: after so long without a heartbeat a holder counts as gone; more than a third of the
            length of a heartbeat.
    """

    def __init__(self, store: HeartbeatStore, *, grace_s: float) -> None:
        self._store = store
        self._grace_s = grace_s
        self._missing_since_s: dict[str, float] = {}

    def look(self, holders: Collection[str], *, now_s: float) -> SortedHolders:
        """Sort holders.

        Raises:
            RedisUnavailable: no worker is known to be gone now, even if it was missing before.
        """
        # `NOBODY` is looked up as well: without Redis nothing is known about any holder.
        asked = sorted(set(holders))
        alive = self._store.alive(asked)
        gone: list[str] = []
        missing: list[str] = []
        for name in asked:
            if name == GIVEN_BACK:
                gone.append(name)
            elif name in alive:
                self._missing_since_s.pop(name, None)
            else:
                since_s = self._missing_since_s.setdefault(name, now_s)
                (gone if now_s - since_s >= self._grace_s else missing).append(name)
        living = tuple(name for name in asked if name in alive and name != GIVEN_BACK)
        return SortedHolders(tuple(gone), living, tuple(missing))

    def forget(self) -> None:
        """Begin anew: nothing was read for a while, or Redis was away."""
        self._missing_since_s.clear()
