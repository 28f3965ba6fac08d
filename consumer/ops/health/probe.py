"""Reads the worker's parts from outside, in any thread, without a lock of the road's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from consumer.features.pausing.pausing import Pausing
from consumer.handlers.delivery import Delivery
from consumer.loop.core import Core
from consumer.loop.worker import Worker
from consumer.ops.health.doubts import DoubtWatch
from consumer.ops.health.lag import LagWatch
from consumer.ops.health.vitals import OldestRequest, Vitals
from consumer.pool import Pool
from consumer.status.availability import ServerOutage
from consumer.status.liveness import Liveness
from feedback.clock import monotonic_s
from feedback.kafka.source import KafkaSource
from feedback.kafka.values import Partition, ReadOn


class Probe:
    """Sees how a worker stands.

    Attributes:
        sources: the worker's members of the group, as soon as they are there.
        lag: knows something where it is started.
        is_draining: whether the worker was asked to end.
    """

    def __init__(
        self, core: Core, *, worker: Worker, pool: Pool, liveness: Liveness, redis: ServerOutage
    ) -> None:
        self._settings = core.settings.worker
        self._worker = worker
        self._buffer = core.buffer
        self._scheduler = core.scheduler
        self._pausing = core.made(Pausing)
        self._doubts = core.made(DoubtWatch)
        self._pool = pool
        self._status_writer = core.status_writer
        self._liveness = liveness
        self._redis = redis
        self.sources: list[KafkaSource] = []
        self.lag = LagWatch(
            core.settings.kafka, owned=lambda: self.owned, read_on=lambda: self.read_on
        )
        self.is_draining = False

    @property
    def owned(self) -> Set[Partition]:
        """The partitions that this worker reads."""
        return frozenset().union(*(one.owned for one in self.sources))

    @property
    def read_on(self) -> Mapping[Partition, ReadOn]:
        """How far it has read them."""
        found: dict[Partition, ReadOn] = {}
        for one in self.sources:
            found |= one.read_on
        return found

    def look(self) -> Vitals:
        """Return the vitals of now."""
        sources, load = self.sources, self._pool.load
        is_away = any(one.is_away for one in sources)
        held = _oldest(self._scheduler.key_queues.waiting)
        return Vitals(
            waiting=len(self._buffer),
            waiting_limit=self._buffer.limit,
            order_held=self._scheduler.key_queues.held,
            order_held_limit=self._scheduler.key_queues.limit,
            order_held_s=0.0 if held is None else monotonic_s() - held.buffered_s,
            held=self._worker.held,
            slots=self._settings.slots,
            slots_busy=load.busy,
            free_slots=self._pool.free_slots,
            children=self._settings.processes,
            children_ready=load.ready,
            children_late=load.late,
            children_late_s=load.late_s,
            replaced=load.replaced,
            is_open=bool(sources),
            is_joined=bool(sources) and all(one.is_joined for one in sources),
            partitions=len(self.owned),
            kafka_away=is_away,
            redis_away=self._redis.is_on,
            journal_away=self._worker.journal_away or self._liveness.journal_away,
            lease_left_s=self._liveness.lease_end_s - monotonic_s(),
            untold=self._status_writer.backlog,
            is_draining=self.is_draining,
            paused=tuple(topic for one in self._pausing for topic in one.paused),
            doubts=tuple(found for one in self._doubts for found in one.seen(monotonic_s())),
            lag={} if is_away else self.lag.seen(monotonic_s()),
            refused=self._refused(),
        )

    def _refused(self) -> tuple[str, ...]:
        journal = (self._worker.journal_refusal, self._liveness.refusal)
        servers = (self._redis.refusal, *journal)
        of_kafka = [said for one in self.sources for said in one.refusals]
        return tuple(dict.fromkeys(one for one in (*of_kafka, *servers) if one))

    def oldest(self) -> OldestRequest | None:
        """Return the request that has been here for longest, None when there is none."""
        now_s = monotonic_s()
        running = _oldest(self._worker.in_hand.unfinished)
        here = [*self._scheduler.arriving, *self._scheduler.waiting]
        waiting = _oldest(one for one in here if isinstance(one, Delivery))
        found = _oldest(one for one in (running, waiting) if one is not None)
        if found is None:
            return None
        record = found.record
        return OldestRequest(
            request_id=found.request_id,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            age_s=round(now_s - found.buffered_s, 3),
            is_running=found is running,
        )


def _oldest(deliveries: Iterable[Delivery]) -> Delivery | None:
    return min(deliveries, key=lambda one: one.buffered_s, default=None)
