"""All requests that a worker has, for those who look at them from outside."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Received
from consumer.loop.in_flight import InFlight
from consumer.loop.order.unclaimed import first_unclaimed
from consumer.loop.scheduler import Scheduler
from consumer.status import status_messages
from feedback.kafka.values import Partition, Place
from feedback.statuses import StatusWrite


class InHand:
    """The requests that wait in a worker, and those in flight. Any thread."""

    def __init__(self, worker_id: str, scheduler: Scheduler, in_flight: InFlight) -> None:
        self._worker_id = worker_id
        self._scheduler = scheduler
        self._in_flight = in_flight

    @property
    def unfinished(self) -> list[Delivery]:
        """The requests that are claimed, or about to be; a copy."""
        return [*self._in_flight.claiming, *dict(self._in_flight.running).values()]

    def first_unclaimed(self, revoked: Collection[Partition]) -> Mapping[Partition, int]:
        """Return the offset from which the next owner of each partition has to read."""
        # Looked at before the others: what has arrived meanwhile is among those.
        arriving = self._scheduler.arriving
        return first_unclaimed(self._unclaimed, revoked, arriving=arriving)

    def has_any(self, places: Collection[Place]) -> bool:
        """Whether any record at these places waits here, runs, or is to be refused."""
        here = itertools.chain(self._unclaimed, list(self._in_flight.refusing), self.unfinished)
        return any((*one.record[:3],) in places for one in here)

    def statuses(self) -> Iterator[StatusWrite]:
        """Yield the statuses of these requests; for a Redis that came back empty."""
        scheduler, claiming = self._scheduler, self._in_flight.claiming
        for waiting in [*scheduler.arriving, *scheduler.waiting, *list(claiming)]:
            if isinstance(waiting, Delivery) and not waiting.wakes:
                yield status_messages.accepted(waiting, worker_id=self._worker_id)
        for (_, generation), one in dict(self._in_flight.running).items():
            yield status_messages.running(one, generation, worker_id=self._worker_id)

    @property
    def _unclaimed(self) -> list[Received]:
        """Requests committed in Kafka and not claimed, or given up at the end."""
        # In the order in which it goes on, and `claiming` again, which it may have come back from.
        scheduler, claiming = self._scheduler, self._in_flight.claiming
        first = [*scheduler.waiting, *list(claiming)]
        return [*first, *scheduler.key_queues.waiting, *list(claiming), *scheduler.given_up]
