"""The way of a request through the worker (contract, section 5), on one page.

    intake thread            this loop                          child          teller thread
    poll, ACCEPTED, commit ─▶ buffer ─▶ claim ─▶ dispatch ─────▶ handler
                                        finish ◀──────────────── outcome
                                        └──────────────────────────────────────▶ final status

One turn of the loop hears the pool, takes what has a slot, writes finishes, effects, takeovers and
claims in one transaction of the journal, and only then acts on them. If the process dies
- before that transaction: what was taken is LOST and resent; what had finished is CLAIMED, its
  lease ends, and a sweep goes by the in-doubt policy;
- after it: claims are rows that a sweep finds, finishes are the truth and are told by a sweep.

A run that ends without a word (its child died, or hung, or raised what nobody declared) goes on by
a takeover: a conditional step from its generation to the next, or to asking the counterparty. What
the sweeper found of dead workers comes by `revive` and goes the same way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from consumer.features.collapse.collapsing import Collapsing
from consumer.features.dead_letters.evidence import NO_EVIDENCE, NoEvidence
from consumer.features.outcomes.news import NO_NEWS, NoNews
from consumer.features.pausing.pausing import NEVER_PAUSED, Pausing
from consumer.features.retries.wakeup import WakeUp
from consumer.handlers.delivery import Delivery
from consumer.intake.buffer import Received
from consumer.journal import Applied, Journal, JournalUnavailable, Row
from consumer.loop import entries
from consumer.loop.admission import Admission
from consumer.loop.choosing import Choosing
from consumer.loop.consequences import Consequences, no_retries, nobody_hears
from consumer.loop.continuation import Continuation
from consumer.loop.ended_runs import EndedRuns
from consumer.loop.held import Held
from consumer.loop.lease import Lease
from consumer.loop.own_runs import OwnRuns
from consumer.loop.pacing import AWAY_POLL_S, Pacing
from consumer.loop.told_runs import Statuses, ToldRuns
from consumer.loop.writing import Writing
from consumer.ops.health.metrics import NO_METRICS, Metrics
from consumer.pool import Job, Pool
from consumer.status import status_messages as telling
from consumer.status.status_writer import Teller
from feedback.clock import monotonic_s
from feedback.logs import EventLog
from feedback.statuses import StatusWrite

log = EventLog("onceward.worker")

LOOKS_EVERY_S = 5.0
GATHER_S = 0.005
MANY_SLOTS = 16
# Of what is gathered: with less than one in so many, others are not waited for.
FEW = 4

Place = tuple[str, int, int]


class Worker:
    """The loop between buffer, journal, pool and teller. Belongs to one thread.

    Args:
        admission: what waits, and which of it may be claimed.
        slots: how many handlers run at the same time.
        journal_wait_s: how long a buffered request waits for an absent journal.
        on_backlog: told when requests begin to queue for slots, and when none does any more.
        metrics: told how requests end.
        evidence: given what failed for good, for its dead letters.
        on_retrying: given what waits for its next run, once the journal says so.
        pausing: knows which topics are paused, and what of them is to run all the same.
        news: told what has ended, for its outcome.
        on_given_up: given what this worker does not run after all.
        looks_every_s: how often the journal is asked whether it knows of what runs here.
        ended: what is remembered of what has run here.
        statuses: what clients were told; None: nothing that the journal could have lost.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        admission: Admission,
        journal: Journal,
        pool: Pool,
        teller: Teller,
        lease: Lease,
        slots: int,
        journal_wait_s: float,
        on_backlog: Callable[[bool], None],
        metrics: Metrics = NO_METRICS,
        evidence: NoEvidence = NO_EVIDENCE,
        on_retrying: Callable[[Sequence[WakeUp]], None] = no_retries,
        pausing: Pausing = NEVER_PAUSED,
        news: NoNews = NO_NEWS,
        on_given_up: Callable[[Sequence[Delivery]], None] = nobody_hears,
        looks_every_s: float = LOOKS_EVERY_S,
        ended: EndedRuns | None = None,
        statuses: Statuses | None = None,
    ) -> None:
        self._worker_id = worker_id
        self.admission = admission
        self._pool = pool
        self._teller = teller
        self._lease = lease
        self._held = Held(ended=EndedRuns() if ended is None else ended)
        self._told = Consequences(
            worker_id=worker_id,
            held=self._held,
            teller=teller,
            metrics=metrics,
            evidence=evidence,
            on_retrying=on_retrying,
            on_held=admission.hold_back,
            news=news,
            pausing=pausing,
            on_given_up=on_given_up,
        )
        self._choosing = Choosing(
            held=self._held,
            admission=admission,
            lease=lease,
            pausing=pausing,
            told=self._told,
            slots=slots,
            journal_wait_s=journal_wait_s,
        )
        self._collapsing = Collapsing(held=self._held, lanes=admission.lanes)
        told_runs = ToldRuns(statuses, lambda: teller.redis_away)
        self._writing = Writing(
            held=self._held,
            journal=journal,
            teller=teller,
            told_runs=told_runs,
            worker_id=worker_id,
        )
        self._own_runs = OwnRuns(held=self._held, journal=journal, every_s=looks_every_s)
        self._pacing = Pacing(
            held=self._held, admission=admission, pool=pool, lease=lease, pausing=pausing
        )
        self._on_backlog = on_backlog
        # With few slots each outcome is a large part of the work, and is not kept waiting.
        self._gathered = slots // (2 if slots > MANY_SLOTS else 4)
        self._backlog = True
        self._written_s = 0.0
        self._written = 0
        self._retry_at_s = 0.0
        self._unbroken_since_s: float | None = None
        self.journal_away = False

    @property
    def held(self) -> int:
        """How many requests are claimed and not yet finished in the journal."""
        return len(self._held.running)

    @property
    def idle(self) -> bool:
        """Whether nothing is claimed, running, or waiting to be written."""
        return self._held.idle

    @property
    def unfinished(self) -> list[Delivery]:
        """What is claimed, or about to be; a copy, for any thread."""
        return [*self._held.claiming, *self._held.running.copy().values()]

    @property
    def unclaimed(self) -> list[Received]:
        """What is committed in Kafka and not claimed, or was given up at the end. Any thread."""
        # In the order in which it goes on, and `claiming` again, which it may have come back from.
        admission, claiming = self.admission, self._held.claiming
        first = [*admission.waiting, *list(claiming)]
        return [*first, *admission.lanes.waiting, *list(claiming), *admission.given_up]

    def has_any(self, places: Collection[Place]) -> bool:
        """Whether any record at these places waits here, runs, or is to be refused. Any thread."""
        here = itertools.chain(self.unclaimed, list(self._held.refusing), self.unfinished)
        return any((*one.record[:3],) in places for one in here)

    def holding(self) -> Iterator[StatusWrite]:
        """Yield the statuses of what runs here; for a Redis that came back empty. Any thread."""
        for waiting in list(self._held.claiming):
            if not waiting.wakes:
                yield telling.accepted(waiting, worker_id=self._worker_id)
        for (_, generation), one in self._held.running.copy().items():
            yield telling.running(one, generation, worker_id=self._worker_id)

    @property
    def room_for_revived(self) -> int:
        """How many requests of dead workers this worker can go on with soon. Any thread."""
        return self._choosing.room_for_revived

    def revive(self, found: Iterable[Continuation]) -> None:
        """Go on with what dead workers left, as slots become free. Any thread."""
        self._choosing.revive(found)
        self._pool.wake()

    def turn(self) -> None:
        """Wait for something to do, and do it."""
        self._listen(self._pacing.patience_s(self.journal_away, taking=self._choosing.taking))
        self._note_backlog()
        self._gather()
        now_s = monotonic_s()
        if self.journal_away and now_s < self._retry_at_s:
            return
        self._note_lapse(now_s)
        again = self._choosing.continuable(now_s, self._pool.free_slots)
        self._choosing.take(now_s, self._pool.free_slots - len(again))
        batch = self._choosing.claimable(now_s, self._pool.free_slots - len(again))
        skips = self._collapsing.skips()
        try:
            looked = self._own_runs.look_if_due(now_s)
            if not (batch or again or skips or self._writing.has_more(now_s)):
                if looked:
                    self._journal_answered()
                return
            applied = self._writing.write(batch, again, now_s, skips=skips)
        except JournalUnavailable as error:
            self._journal_lost(error, now_s)
            return
        self._written_s = monotonic_s()
        self._written = len(self._held.finishes)
        self._journal_answered()
        self._answer_effects(applied)
        self._told.finished(applied)
        self._told.skipped(skips, applied)
        self._collapsing.written(skips, applied.skipped)
        granted = [*self._told.continued(again, applied), *self._told.claimed(batch, applied)]
        del self._held.claiming[: len(batch)]
        self._dispatch(granted)

    # hearing -------------------------------------------------------------------------------

    def _listen(self, timeout_s: float) -> None:
        for event in self._pool.poll(timeout_s):
            self._held.hear(event)
        self._told.heard()

    def _note_backlog(self) -> None:
        backlog = self.admission.backlog
        if backlog is not self._backlog:
            self._backlog = backlog
            self._on_backlog(backlog)

    def _note_lapse(self, now_s: float) -> None:
        """Notice that our lease was over for a while, as of a host that stood still."""
        since_s = self._lease.unbroken_since_s(now_s)
        if since_s is None or since_s != self._unbroken_since_s:
            self._held.lapse()
        self._unbroken_since_s = since_s

    def _gather(self) -> None:
        """While requests queue for slots, let some outcomes come together before writing.

        A transaction costs nearly the same for one as for thirty, and children answer one by one.
        With nobody waiting for a slot this does nothing, so it costs no latency. Nor where handlers
        take their time, and the last transaction had few: a slot that waits would cost more.
        """
        if FEW * self._written < self._gathered:
            return
        until_s = self._written_s + GATHER_S
        while 0 < len(self._held.finishes) < self._gathered and self.admission.backlog:
            left_s = until_s - monotonic_s()
            if left_s <= 0:
                return
            self._listen(left_s)

    # acting on what was written ------------------------------------------------------------

    def _answer_effects(self, applied: Applied) -> None:
        for run in self._held.effects:
            self._pool.answer_effect(*run, granted=run in applied.effects)
        self._held.entered |= applied.effects
        self._held.effects.clear()

    def _dispatch(self, granted: Sequence[tuple[Delivery, Row]]) -> None:
        if not granted:
            return
        # ---- The guarantee (contract, section 3) ------------------------------------------------
        # What is dispatched below was committed in Kafka before it came into the buffer, and its
        # claim was committed in the journal a moment ago, as this generation and to us alone. Our
        # lease has not ended; should it end now, the generation refuses the effect and the finish.
        if not self._lease.lease_holds(monotonic_s()):
            log.warning("lease.ended_before_dispatch", requests=len(granted))
            self._held.not_dispatched(granted)
            return
        self._collapsing.begin(granted)
        self._pool.dispatch([self._job(delivery, row) for delivery, row in granted])
        self._held.running |= {(row.request_id, row.generation): one for one, row in granted}
        self._teller.tell_running(row for _, row in granted)

    def _job(self, delivery: Delivery, row: Row) -> Job:
        run = (row.request_id, row.generation)
        return entries.job(
            delivery,
            row,
            asks=run in self._held.asking,
            collapses=self._collapsing.asks_first(delivery, run),
        )

    # the journal away ----------------------------------------------------------------------

    def _journal_lost(self, error: JournalUnavailable, now_s: float) -> None:
        if not self.journal_away:
            log.warning("journal.away", reason=error.reason, held=self.held)
        self.journal_away = True
        self._own_runs.look_soon()
        self._retry_at_s = now_s + AWAY_POLL_S
        self._choosing.give_up_stuck(now_s)

    def _journal_answered(self) -> None:
        self.admission.goes_on()
        if self.journal_away:
            self.journal_away = False
            log.info("journal.back", finishes=len(self._held.finishes))

    # ending --------------------------------------------------------------------------------

    def take_nothing_more(self) -> None:
        """Claim nothing new from now on, and go on with nothing of dead workers."""
        self._choosing.taking = False

    def give_up(self, received: Iterable[Received], *, code: str) -> None:
        """Say that nobody holds these: they were never claimed, so they read as LOST."""
        self._told.given_up(received, code=code)

    def settle(self) -> None:
        """Write what the journal has lost of what ran here, before peers count it as left over.

        Raises:
            JournalUnavailable: what stands as claimed goes by its policy.
        """
        self._own_runs.look()
        if self._held.lost:
            self._told.finished(self._writing.write_ends())

    def write_rest(self) -> None:
        """Write what is left at the very end: refusals, and what clients have been told.

        Raises:
            JournalUnavailable: a sweep tells clients again, which is harmless; the rows of the
                refusals are missing, which the audit reports.
        """
        self._told.refused(self._writing.write_told())
        if self._held.refusing:
            # One that met another request's id has a row of its own now; there is no third kind.
            self._told.refused(self._writing.write_refusals())

    def cut(self) -> int:
        """Kill what runs and write what became of it; return how many requests were cut.

        What left nothing stays claimed, and reads as RETRYING: a peer's sweep runs it again. So
        does what was claimed and not begun.

        Raises:
            JournalUnavailable: their claims stand; a peer's sweep ends them by the policy.
        """
        cut = len(self._held.running) + len(self._held.claiming)
        for event in self._pool.kill():
            self._held.hear(event)
        self._told.heard()
        for delivery in self._held.claiming:
            log.warning("request.not_started", request_id=delivery.request_id)
        self._told.finished(self._writing.write_ends())
        if self._held.lost:
            self._told.finished(self._writing.write_ends())
        return cut
