"""The end of a worker: nothing more comes in, runs end or are cut, and statuses are written.

Order of the drain, and why:
1. The loop takes nothing more before the readers leave, so that no request begins in between.
2. All readers leave at once; the loop turns on until nothing runs, and gives up in each turn
   requests that were still committed: no other worker has them.
3. The journal says of each run how it ended, while the lease still holds: afterwards peers judge.
4. The readers have left before the last requests are given up, since one may still commit a poll;
   and before the children end, since a reader wakes the pool.
5. The children leave their lifespans and end, or are cut. They do so here, and not with the
   components, since every report of a run comes from them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from consumer.journal import JournalUnavailable
from consumer.loop.worker import Worker
from consumer.ops.component import Component
from consumer.ops.signals import StopSignals
from consumer.pool import Pool
from consumer.status.status_writer import StatusWriter
from feedback.clock import monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.service")

LEAVE_S = 10.0
SETTLE_S = 5.0
SETTLE_AGAIN_S = 0.2
IDLE_LOOK_S = 0.05
# How long idle children may take to end: as long as the drain has left, within these.
CHILDREN_LEAST_S = 1.0
CHILDREN_S = 5.0


class Drain:
    """Ends the runs of a worker. Belongs to the loop's thread.

    Args:
        stop: says whether a second signal came.
    """

    def __init__(
        self,
        *,
        worker: Worker,
        pool: Pool,
        readers: Sequence[Component],
        stop: StopSignals,
        drain_timeout_s: float,
    ) -> None:
        self._worker = worker
        self._pool = pool
        self._readers = readers
        self._stop = stop
        self._drain_timeout_s = drain_timeout_s

    def run(self) -> int:
        """End everything that runs; return how many requests were cut."""
        deadline_s = monotonic_s() + self._drain_timeout_s
        self._worker.take_nothing_more()
        for one in self._readers:
            one.leave()
        self._run_until_idle(deadline_s)
        # Where runs are left their ends are still to be written: a journal that is away has all of
        # the drain to come back.
        soon_s = monotonic_s() + SETTLE_S
        self._settle(min(deadline_s, soon_s) if self._worker.idle else deadline_s)
        for one in self._readers:
            if not one.has_left(LEAVE_S):
                log.warning(f"{one.name}.not_ended")
        self._give_up_waiting()
        return self._end_children(deadline_s)

    def _run_until_idle(self, deadline_s: float) -> None:
        while monotonic_s() < deadline_s and not self._stop.at_once:
            self._give_up_waiting()
            if self._is_over() and self._have_left() and not len(self._worker.scheduler):
                return
            self._worker.turn()

    def _is_over(self) -> bool:
        # Where handlers' files have changed no child comes any more: a peer goes on with the rest.
        waits_in_vain = self._pool.is_out_of_children and self._worker.waits_for_slots
        return self._worker.idle or waits_in_vain

    def _have_left(self) -> bool:
        return all(one.has_left(IDLE_LOOK_S) for one in self._readers)

    def _settle(self, deadline_s: float) -> None:
        """Write this worker's knowledge of each run into the journal, before its lease ends.

        With the journal away it is tried for a while: a database that has just failed over is the
        one that has forgotten something.
        """
        while True:
            try:
                self._worker.settle()
                return
            except JournalUnavailable as error:
                if monotonic_s() >= deadline_s or self._stop.at_once:
                    log.warning("runs.not_settled", reason=error.reason)
                    return
                time.sleep(SETTLE_AGAIN_S)

    def _give_up_waiting(self) -> None:
        # Again and again: requests that the intake committed while it was stopping have no owner
        # either.
        self._worker.give_up(self._worker.scheduler.take_all(), code="")

    def _end_children(self, deadline_s: float) -> int:
        if not self._worker.held and self._worker.idle:
            # Idle children end at once, but for the lifespans that they leave.
            left_s = 0.0 if self._stop.at_once else deadline_s - monotonic_s()
            self._pool.stop(min(CHILDREN_S, max(CHILDREN_LEAST_S, left_s)))
            return 0
        try:
            cut = self._worker.cut()
        except JournalUnavailable as error:
            log.error("worker.cut_unwritten", runs=self._worker.held, reason=error.reason)
            return max(1, self._worker.held)
        log.warning("worker.cut", runs=cut)
        return cut


def tell_rest(worker: Worker, status_writer: StatusWriter, timeout_s: float) -> None:
    """Write the last refusals and all waiting statuses; note which statuses are written.

    Args:
        timeout_s: how long Redis may take.
    """
    try:
        worker.write_rest()
        status_writer.flush(timeout_s)
        worker.write_rest()
    except JournalUnavailable as error:
        log.warning("rest.not_written", reason=error.reason)
        status_writer.flush(timeout_s)
