"""The way of a request through the worker (docs: How it works), on one page.

    intake thread            this loop                          child          status thread
    poll, ACCEPTED, commit ─▶ buffer ─▶ claim ─▶ dispatch ─────▶ handler
                                        finish ◀──────────────── outcome
                                        └──────────────────────────────────────▶ final status

One turn of the loop hears the pool, takes what has a slot, writes finishes, effects, takeovers and
claims in one transaction of the journal, and only then acts on them. If the process dies
- before that transaction: requests taken are LOST and resent; finished runs are CLAIMED, their
  lease ends, and a sweep goes by the in-doubt policy;
- after it: claims are rows that a sweep finds, finishes are the truth and are told by a sweep.

A run that ends without a word (its child died, or hung, or raised an undeclared error) goes on by a
takeover: a conditional step from its generation to the next, or to asking the counterparty. Runs of
dead workers, found by the sweeper, come by `revive` and go the same way.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Received
from consumer.journal import Applied, Journal, JournalUnavailable, Row
from consumer.loop.continuation import Continuation
from consumer.loop.ended_runs import EndedRuns
from consumer.loop.feature import Feature, that_have
from consumer.loop.follow_up import FollowUp
from consumer.loop.in_flight import InFlight
from consumer.loop.in_hand import InHand
from consumer.loop.lease import Lease
from consumer.loop.limits import Limits
from consumer.loop.own_runs import OwnRuns
from consumer.loop.scheduler import Scheduler
from consumer.loop.selection import AWAY_POLL_S, Selection
from consumer.loop.settlement import Skipping
from consumer.loop.told_runs import ToldRuns, ToldStatuses
from consumer.loop.write_batching import WriteBatching
from consumer.loop.writing import Writing
from consumer.pool import Job, Pool
from consumer.status.status_writer import StatusWriter
from feedback.clock import monotonic_s
from feedback.logs import EventLog
from feedback.outages import OutageLog

log = EventLog("onceward.worker")


class Worker:
    """The loop between buffer, journal, pool and status writer. Belongs to one thread.

    Args:
        scheduler: the waiting requests, and which of them may be claimed.
        features: take part in the way of requests; see `Feature`.
        statuses: reads the statuses in Redis; None: the journal can have lost nothing.

    Attributes:
        in_hand: its requests, for other threads.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        scheduler: Scheduler,
        journal: Journal,
        pool: Pool,
        status_writer: StatusWriter,
        lease: Lease,
        limits: Limits,
        features: Sequence[Feature] = (),
        statuses: ToldStatuses | None = None,
    ) -> None:
        self.scheduler = scheduler
        self._pool = pool
        self._status_writer = status_writer
        self._lease = lease
        self._features = tuple(features)
        self._hear_began = that_have(features, Feature.began)
        self._in_flight = InFlight(
            ended=EndedRuns(limits.remembered_bytes), judges=that_have(features, Feature.judged)
        )
        self.in_hand = InHand(worker_id, scheduler, self._in_flight)
        self._told = FollowUp(
            worker_id=worker_id,
            in_flight=self._in_flight,
            scheduler=scheduler,
            status_writer=status_writer,
            features=self._features,
        )
        self._selection = Selection(
            in_flight=self._in_flight,
            scheduler=scheduler,
            lease=lease,
            limits=limits,
            features=self._features,
            give_up=self._told.given_up,
        )
        self._writing = Writing(
            in_flight=self._in_flight,
            journal=journal,
            status_writer=status_writer,
            told_runs=ToldRuns(statuses, lambda: status_writer.redis_away),
            worker_id=worker_id,
        )
        self._own_runs = OwnRuns(
            in_flight=self._in_flight, journal=journal, every_s=limits.looks_every_s
        )
        self._batching = WriteBatching(limits.slots)
        self._backlog = True
        self._retry_at_s = 0.0
        self._unbroken_since_s: float | None = None
        self._outage = OutageLog(log, "journal.away", "journal.back")

    @property
    def journal_away(self) -> bool:
        """Whether the journal did not answer the last time."""
        return self._outage.is_on

    @property
    def journal_refusal(self) -> str:
        """The right that the journal does not give, in a sentence; empty without such a fault."""
        return self._outage.refusal

    @property
    def held(self) -> int:
        """How many requests are claimed and not yet finished in the journal."""
        return len(self._in_flight.running)

    @property
    def idle(self) -> bool:
        """Whether nothing is claimed, running, or waiting to be written."""
        return self._in_flight.idle and not any(one.holds() for one in self._features)

    @property
    def waits_for_slots(self) -> bool:
        """Whether nothing runs or is to be written: all that is held goes on in a free slot."""
        return self._in_flight.waits_for_slots and not any(one.holds() for one in self._features)

    @property
    def room_for_revived(self) -> int:
        """How many requests of dead workers this worker can go on with soon. Any thread."""
        return self._selection.room_for_revived

    def revive(self, found: Iterable[Continuation]) -> None:
        """Go on with runs of dead workers, as slots become free. Any thread."""
        self._selection.revive(found)
        self._pool.wake()

    def turn(self) -> None:
        """Wait for something to do, and do it."""
        free_slots = self._pool.free_slots
        self._listen(self._selection.patience_s(self.journal_away, free_slots=free_slots))
        self._note_backlog()
        self._gather()
        now_s = monotonic_s()
        if self.journal_away and now_s < self._retry_at_s:
            return
        self._note_lapse(now_s)
        again = self._selection.continuable(now_s, self._pool.free_slots)
        self._selection.take(now_s, self._pool.free_slots - len(again))
        skips = self._skips()
        try:
            looked = self._own_runs.look_if_due(now_s)
            if looked:
                # It may have hung, or this host stood still meanwhile.
                self._note_lapse(monotonic_s())
            batch = self._selection.claimable(now_s, self._pool.free_slots - len(again))
            if not (batch or again or skips or self._writing.has_more(now_s)):
                if looked:
                    self._journal_answered()
                return
            applied = self._writing.write(batch, again, now_s, skips=skips)
        except JournalUnavailable as error:
            self._journal_lost(error, now_s)
            return
        self._batching.wrote(len(self._in_flight.settlements), now_s=monotonic_s())
        self._journal_answered()
        self._answer_effects(applied)
        self._told.finished(applied)
        self._told.skipped(skips, applied)
        granted = [*self._told.continued(again, applied), *self._told.claimed(batch, applied)]
        self._in_flight.drop_answered(batch)
        self._dispatch(granted)

    def _skips(self) -> list[Skipping]:
        """Return waiting requests that end with the runs of this turn."""
        finishes, running = self._in_flight.finishes, self._in_flight.running.keys()
        return [one for feature in self._features for one in feature.skips(finishes, running)]

    # hearing -------------------------------------------------------------------------------

    def _listen(self, timeout_s: float) -> None:
        for event in self._pool.poll(timeout_s):
            self._in_flight.hear(event)
        self._told.heard()

    def _note_backlog(self) -> None:
        backlog = self.scheduler.backlog
        if backlog is not self._backlog:
            self._backlog = backlog
            share_interpreter(backlog)

    def _note_lapse(self, now_s: float) -> None:
        """Notice that our lease was over for a while, as of a host that stood still."""
        since_s = self._lease.unbroken_since_s(now_s)
        if since_s is None or since_s != self._unbroken_since_s:
            self._in_flight.lapse()
        self._unbroken_since_s = since_s

    def _gather(self) -> None:
        while (left_s := self._left_to_gather_s()) > 0:
            self._listen(left_s)

    def _left_to_gather_s(self) -> float:
        return self._batching.wait_s(
            len(self._in_flight.settlements),
            backlog=self.scheduler.backlog,
            now_s=monotonic_s(),
        )

    # acting on what was written ------------------------------------------------------------

    def _answer_effects(self, applied: Applied) -> None:
        for run in self._in_flight.effects:
            self._pool.answer_effect(*run, granted=run in applied.effects)
        self._in_flight.effects_answered(applied.effects)

    def _dispatch(self, granted: Sequence[tuple[Delivery, Row]]) -> None:
        if not granted:
            return
        # ---- (docs: The guarantee) -------------------------------------------------------------
        # What is dispatched below was committed in Kafka before it came into the buffer, and its
        # claim was committed in the journal a moment ago, as this generation and to us alone. Our
        # lease has not ended; should it end now, the generation refuses the effect and the finish.
        if not self._lease.lease_holds(monotonic_s()):
            log.warning("lease.ended_before_dispatch", requests=len(granted))
            self._in_flight.not_dispatched(granted)
            return
        jobs = [self._begin(delivery, row) for delivery, row in granted]
        self._pool.dispatch(jobs)
        self._status_writer.tell_running(row for _, row in granted)

    def _begin(self, delivery: Delivery, row: Row) -> Job:
        job = self._in_flight.begin(delivery, row)
        for feature in self._hear_began:
            feature.began(delivery, job)
        return job

    # the journal away ----------------------------------------------------------------------

    def _journal_lost(self, error: JournalUnavailable, now_s: float) -> None:
        self._outage.begins(error, held=self.held)
        self._own_runs.look_soon()
        self._retry_at_s = now_s + AWAY_POLL_S
        self._selection.give_up_stuck(now_s)

    def _journal_answered(self) -> None:
        self.scheduler.goes_on()
        self._outage.ends(finishes=len(self._in_flight.settlements))

    # ending --------------------------------------------------------------------------------

    def take_nothing_more(self) -> None:
        """Claim nothing new from now on, and go on with nothing of dead workers."""
        self._selection.taking = False

    def give_up(self, received: Iterable[Received], *, code: str) -> None:
        """Say that nobody holds these: they were never claimed, so they read as LOST."""
        self._told.given_up(received, code=code)

    def settle(self) -> None:
        """Write runs of ours that the journal has lost, before peers count them as a dead worker's.

        Raises:
            JournalUnavailable: requests that stand as claimed go by their policies.
        """
        self._own_runs.look()
        if self._in_flight.lost:
            self._told.finished(self._writing.write_ends())

    def write_rest(self) -> None:
        """Write the rest at the very end: refusals, and confirmed statuses.

        Raises:
            JournalUnavailable: a sweep tells clients again, which is harmless; the rows of the
                refusals are missing, which the audit reports.
        """
        self._told.refused(self._writing.write_told())
        if self._in_flight.refusing:
            # One that met another request's id has a row of its own now; there is no third kind.
            self._told.refused(self._writing.write_refusals())

    def cut(self) -> int:
        """Kill the runs and write their ends; return how many requests were cut.

        A run that left no effect stays claimed, and reads as RETRYING: a peer's sweep runs it
        again. So does a claim that no child has begun.

        Raises:
            JournalUnavailable: their claims stand; a peer's sweep ends them by the policy.
        """
        cut = len(self._in_flight.running) + len(self._in_flight.claiming)
        for event in self._pool.kill():
            self._in_flight.hear(event)
        self._told.heard()
        for delivery in self._in_flight.claiming:
            log.warning("request.not_started", request_id=delivery.request_id)
        self._told.finished(self._writing.write_ends())
        if self._in_flight.lost:
            self._told.finished(self._writing.write_ends())
        self._writing.write_unbegun()
        return cut


def share_interpreter(backlog: bool) -> None:
    """Let threads change often while nothing queues, and seldom while something does.

    kafka-python's loop computes for milliseconds after each fetch, and at Python's 5 ms the claims
    of the fetched records wait for that: 1 ms of 9 at the median of 50/s. With a backlog the
    changes themselves cost 15 % of the processor.
    """
    sys.setswitchinterval(0.005 if backlog else 0.0005)
