"""Which requests wait behind a run of their key when it begins, and end with its success."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from consumer.handlers.delivery import Delivery
from consumer.handlers.order_keys import lane_of
from consumer.journal import Finish, Row, Run
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.loop.order.key_queues import KeyQueues, QueuedName
from consumer.loop.settlement import Settlement, Skipping
from consumer.pool import Job
from feedback.status import State


def make(core: Core) -> Sequence[Feature]:
    """Return the feature that finds which request stands in for which, if a handler collapses."""
    if all(one.collapse is None for one in core.handlers):
        return ()
    return (Collapsing(core.scheduler.key_queues),)


class Cover(NamedTuple):
    """A run's own delivery, and the names of the requests that waited behind it when it began."""

    head: Delivery
    names: tuple[QueuedName, ...]


class Collapsing(Feature):
    """Knows which runs stand in for which requests. Belongs to the loop's thread.

    A waiting request stays in its queue until the journal has its end. If it is given up, or handed
    over to another worker meanwhile, it goes the way of all others there.
    """

    def __init__(self, key_queues: KeyQueues) -> None:
        self._key_queues = key_queues
        self._covers: dict[Run, Cover] = {}
        # Runs whose success a child has committed: the requests behind them are still to end.
        self._stood_in: dict[Run, Cover] = {}

    def began(self, delivery: Delivery, job: Job) -> None:
        """Note the requests behind a run that begins.

        The handler's predicate is asked about every run but one that follows a doubtful one.
        """
        if delivery.handler.collapse is None:
            return
        run = (job.request_id, job.generation)
        self._covers.pop(run, None)
        key = lane_of(delivery)
        # An answer about an older run proves nothing about later requests.
        if key is None or job.asks:
            return
        names = self._key_queues.names(key) if job.collapses else self._names_before(run)
        if names:
            self._covers[run] = Cover(delivery, names)

    def _names_before(self, run: Run) -> tuple[QueuedName, ...]:
        """Return the names behind the run before, whose effect this one may only repeat.

        Its counterparty answers to the same key with what it did then: requests that came since
        have had no part in that. A run before that was another worker's stood in for requests that
        nobody knows here.
        """
        before = self._covers.get((run[0], run[1] - 1))
        return () if before is None else before.names

    def skips(self, finishes: Iterable[Finish], running: Collection[Run]) -> Sequence[Skipping]:
        """Return requests to end, since the one in their stead has succeeded; each id once."""
        if not (self._covers or self._stood_in):
            return ()
        self._covers = {run: one for run, one in self._covers.items() if run in running}
        found: dict[str, Skipping] = {}
        for finish in finishes:
            run = (finish.request_id, finish.generation)
            if finish.state == State.SUCCEEDED and run in self._covers:
                found.update(self._behind(run, self._covers[run]))
        for run, cover in list(self._stood_in.items()):
            behind = dict(self._behind(run, cover))
            if not behind:
                del self._stood_in[run]
            found.update(behind)
        return list(found.values())

    def holds(self) -> Iterable[Delivery]:
        """Return the runs whose key is not free yet: the requests behind them are still to end."""
        return [one.head for one in self._stood_in.values()]

    def skipped(self, skips: Sequence[Skipping], rows: Mapping[str, Row]) -> None:
        """Let go of ended requests; those that the journal did not skip go on in their queues."""
        self._key_queues.drop(one.delivery for one in skips if one.delivery.request_id in rows)
        self._stood_in.clear()

    def ended(self, one: Settlement) -> None:
        """Keep a run that a child has committed until those that end with it are written.

        What one without an end stood in for is looked up when the next one begins.
        """
        if one.follows is not None:
            return
        cover = self._covers.pop(one.run, None)
        if cover is not None and one.is_committed:
            self._stood_in[one.run] = cover

    def _behind(self, run: Run, cover: Cover) -> Iterator[tuple[str, Skipping]]:
        key = lane_of(cover.head)
        if key is None:
            return
        seen = {run[0]}
        for one in self._key_queues.those(key, cover.names):
            # A wake-up has a row that says more; a second payload has its own verdict.
            if not one.wakes and one.request_id not in seen:
                seen.add(one.request_id)
                yield one.request_id, Skipping(one, run)
