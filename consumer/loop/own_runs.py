"""Compares the journal's rows of a worker's runs with the worker's own memory.

A database may lose commits that it acknowledged: at a failover to a standby that lagged, or in a
crash with `synchronous_commit=off`. Then a claim stands whose run has ended here, or a run is in a
child's hands whose claim is gone, or the mark of its effect. Left alone, the first would hold its
key for as long as this worker lives, and run again once it ends; beside the second, a resend would
run; and a sweep would run the third again, once this worker ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from consumer.journal import Journal, OwnRun, Row, Run
from consumer.journal.claims.verdict import is_lost
from consumer.journal.pacing import pause_after_look_s
from consumer.loop.in_flight import InFlight
from feedback.clock import monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.worker")

# Of `every_s`: how long at most after a look the next one comes.
FURTHEST = 60


class OwnRuns:
    """Compares the two once in a while. Belongs to the loop's thread.

    Args:
        in_flight: the runs in flight and the remembered ones; lost runs go there to be written
            again.
        every_s: between two looks; longer where they take the database long.
    """

    def __init__(self, *, in_flight: InFlight, journal: Journal, every_s: float) -> None:
        self._in_flight = in_flight
        self._journal = journal
        self._every_s = every_s
        self._due_s = monotonic_s() + every_s
        self._took_s = 0.0

    def look_if_due(self, now_s: float) -> bool:
        """Look, if the last look was long enough ago; return whether it was.

        Raises:
            JournalUnavailable: it is looked again soon.
        """
        if now_s < self._due_s:
            return False
        began_s = monotonic_s()
        self.look()
        took_s, before_s = monotonic_s() - began_s, self._took_s
        self._took_s = took_s
        # A stall, which may well come before a failover, draws out one look; a database whose index
        # is full, each of them.
        spared_s = pause_after_look_s(min(took_s, before_s))
        self._due_s = now_s + max(self._every_s, min(spared_s, FURTHEST * self._every_s))
        return True

    def look_soon(self) -> None:
        """Look before anything is written: a database that was away may come back older."""
        self._due_s = 0.0

    def look(self) -> None:
        """Find runs that the database has lost; leave unknown claims of ours to a sweep.

        Raises:
            JournalUnavailable: it is looked again soon.
        """
        rows = self._journal.own_claims()
        standing = {(row.request_id, row.generation): row for row in rows}
        in_hand = self._in_flight.names()
        loose = [row for row in rows if row.request_id not in in_hand]
        known = {row.request_id: self._known(row) for row in loose}
        unknown = [(row.request_id, row.generation) for row in loose if not known[row.request_id]]
        if unknown:
            log.error("claims.disowned", count=len(unknown), request_id=unknown[0][0])
            self._journal.disown(unknown)
        for one in (*known.values(), *self._lost_in_hand(standing)):
            if one is not None:
                self._in_flight.lose(one)

    def _known(self, row: Row) -> OwnRun | None:
        one = self._in_flight.ended_here(row.request_id)
        return one if one is not None and is_lost(one, row, row.owner) else None

    def _lost_in_hand(self, standing: Mapping[Run, Row]) -> Iterator[OwnRun]:
        for run in self._in_flight.running:
            one, row = self._in_flight.own_run(run), standing.get(run)
            # A finish that is not written yet is written with the next turn.
            if row is None or (one.finish is None and is_lost(one, row, row.owner)):
                yield one
