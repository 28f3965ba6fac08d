"""Which requests wait behind a run of their key when it begins, and end with its success."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from consumer.handlers.delivery import Delivery
from consumer.handlers.order_keys import lane_of
from consumer.journal import Row, Skip
from consumer.loop import entries
from consumer.loop.entries import Run
from consumer.loop.held import Held
from consumer.loop.order.lanes import Lanes
from feedback.status import State


class Skipping(NamedTuple):
    """A request that is to end in the stead of which another one ran.

    Args:
        by: the run that has succeeded.
    """

    delivery: Delivery
    by: Run

    @property
    def entry(self) -> Skip:
        """What the journal is asked for."""
        return Skip(entries.claim(self.delivery), *self.by)


class Collapsing:
    """Knows which runs stand in for what. Belongs to the loop's thread.

    What waits stays in its lane until the journal has its end: given up, or handed over to another
    worker meanwhile, it goes the way of all that waits there.

    Args:
        held: the runs; what each stands in for is kept there, and goes with it.
        lanes: what waits.
    """

    def __init__(self, *, held: Held, lanes: Lanes) -> None:
        self._held = held
        self._lanes = lanes

    def begin(self, granted: Iterable[tuple[Delivery, Row]]) -> None:
        """Note what waits behind each of these runs, which are about to begin."""
        for delivery, row in granted:
            if delivery.handler.collapse is None:
                continue
            run = (row.request_id, row.generation)
            key = lane_of(delivery)
            # An answer about an older run says nothing of what has come since.
            if key is None or run in self._held.asking:
                continue
            names = self._lanes.names(key)
            if names:
                self._held.covers[run] = (delivery, names)

    def asks_first(self, one: Delivery, run: Run) -> bool:
        """Whether the predicate is asked about a run: not where a no could hide an effect."""
        return one.handler.collapse is not None and run not in self._held.doubtful

    def skips(self) -> list[Skipping]:
        """Return what is to end, since what stands in for it has succeeded; each id once."""
        found: dict[str, Skipping] = {}
        for run, finish in self._held.finishes.items():
            if finish.state == State.SUCCEEDED and run in self._held.covers:
                found.update(self._behind(run, *self._held.covers[run]))
        for run, (head, names) in list(self._held.stood_in.items()):
            behind = dict(self._behind(run, head, names))
            if not behind:
                del self._held.stood_in[run]
            found.update(behind)
        return list(found.values())

    def written(self, skips: Sequence[Skipping], rows: Iterable[Row]) -> None:
        """Let go of what has ended; what the journal did not skip goes on in its lane.

        Args:
            skips: what was asked for.
            rows: what has ended.
        """
        ended = {row.request_id for row in rows}
        self._lanes.drop(one.delivery for one in skips if one.delivery.request_id in ended)
        self._held.stood_in.clear()

    def _behind(
        self, run: Run, head: Delivery, names: Sequence[tuple[str, str, int]]
    ) -> Iterator[tuple[str, Skipping]]:
        key = lane_of(head)
        if key is None:
            return
        seen = {run[0]}
        for one in self._lanes.those(key, names):
            # A wake-up has a row that says more; a second payload has its own verdict.
            if not one.wakes and one.request_id not in seen:
                seen.add(one.request_id)
                yield one.request_id, Skipping(one, run)
