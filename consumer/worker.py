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

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from consumer import entries, telling
from consumer.buffer import Buffer, Received
from consumer.consequences import Consequences, no_retries
from consumer.continuation import Continuation
from consumer.dead_letters.evidence import NO_EVIDENCE, NoEvidence
from consumer.delivery import Delivery
from consumer.health.metrics import NO_METRICS, Metrics
from consumer.held import Held
from consumer.journal import (
    Applied,
    Journal,
    JournalUnavailable,
    Published,
    Refusal,
    Row,
)
from consumer.pool import Pool
from consumer.retries.wakeup import WakeUp
from consumer.teller import Teller
from feedback.clock import monotonic_s
from feedback.logs import EventLog
from feedback.statuses import StatusWrite

log = EventLog("onceward.worker")

IDLE_POLL_S = 0.5
GATHER_S = 0.005
AWAY_POLL_S = 0.2
DUE_EVERY_S = 0.1
PUBLISHED_AT_ONCE = 512
PUBLISHED_EVERY_S = 1.0


class Lease(Protocol):
    """What the loop asks before it lets anything start."""

    def lease_holds(self, now_s: float) -> bool: ...
    def may_sweep(self, now_s: float) -> bool: ...


class Worker:
    """The loop between buffer, journal, pool and teller. Belongs to one thread.

    Args:
        slots: how many handlers run at the same time.
        journal_wait_s: how long a buffered request waits for an absent journal.
        on_backlog: told when requests begin to queue for slots, and when none does any more.
        metrics: told how requests end.
        evidence: given what failed for good, for its dead letters.
        due: retries that are due; they go before what is in `buffer`.
        on_retrying: given what waits for its next run, once the journal says so.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        buffer: Buffer,
        journal: Journal,
        pool: Pool,
        teller: Teller,
        lease: Lease,
        slots: int,
        journal_wait_s: float,
        on_backlog: Callable[[bool], None],
        metrics: Metrics = NO_METRICS,
        evidence: NoEvidence = NO_EVIDENCE,
        due: Buffer | None = None,
        on_retrying: Callable[[Sequence[WakeUp]], None] = no_retries,
    ) -> None:
        self._due = Buffer(1) if due is None else due
        self._due_taken_s = 0.0
        self._worker_id = worker_id
        self._buffer = buffer
        self._journal = journal
        self._pool = pool
        self._teller = teller
        self._lease = lease
        self._journal_wait_s = journal_wait_s
        self._held = Held()
        self._told = Consequences(
            worker_id=worker_id,
            held=self._held,
            teller=teller,
            metrics=metrics,
            evidence=evidence,
            on_retrying=on_retrying,
        )
        self._on_backlog = on_backlog
        self._slots = slots
        self._revived: deque[Continuation] = deque()
        self._backlog = True
        self._written_s = 0.0
        self._published: tuple[Published, ...] = ()
        self._published_s = 0.0
        self._retry_at_s = 0.0
        self.journal_away = False
        self.taking = True

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
        waiting = len(self._revived) + len(self._held.continuing)
        return max(0, self._slots - waiting) if self.taking else 0

    def revive(self, found: Iterable[Continuation]) -> None:
        """Go on with what dead workers left, as slots become free. Any thread."""
        self._revived.extend(found)
        self._pool.wake()

    def turn(self) -> None:
        """Wait for something to do, and do it."""
        self._listen(self._patience_s())
        self._note_backlog()
        self._gather()
        now_s = monotonic_s()
        if self.journal_away and now_s < self._retry_at_s:
            return
        again = self._continuable(now_s)
        self._take(now_s, self._pool.free_slots - len(again))
        batch = self._claimable(now_s, self._pool.free_slots - len(again))
        if not (batch or again or self._has_more_to_write(now_s)):
            return
        try:
            applied = self._write(batch, again, now_s)
        except JournalUnavailable as error:
            self._journal_lost(error, now_s)
            return
        self._written_s = monotonic_s()
        self._journal_answered()
        self._answer_effects(applied)
        self._told.finished(applied)
        del self._held.claiming[: len(batch)]
        granted = [
            *self._told.continued(again, applied),
            *self._told.claimed(batch, applied),
        ]
        self._dispatch(granted)

    # hearing -------------------------------------------------------------------------------

    def _listen(self, timeout_s: float) -> None:
        for event in self._pool.poll(timeout_s):
            self._held.hear(event)
        self._told.heard()

    def _note_backlog(self) -> None:
        backlog = len(self._buffer) > 0
        if backlog is not self._backlog:
            self._backlog = backlog
            self._on_backlog(backlog)

    def _gather(self) -> None:
        """While requests queue for slots, let some outcomes come together before writing.

        A transaction costs nearly the same for one as for sixteen, and children answer one by
        one. With nobody waiting for a slot this does nothing, so it costs no latency.
        """
        until_s = self._written_s + GATHER_S
        while 0 < len(self._held.finishes) < self._slots // 4 and len(self._buffer):
            left_s = until_s - monotonic_s()
            if left_s <= 0:
                return
            self._listen(left_s)

    # claiming and writing ------------------------------------------------------------------

    def _continuable(self, now_s: float) -> list[Continuation]:
        while self._revived:
            one = self._revived.popleft()
            # A run that a child of ours still has was ours before others had it for a while: its
            # own end says more.
            if self.taking and one.run not in self._held.running:
                self._held.continuing.setdefault(one.run, one)
        if not (self._held.continuing and self._lease.lease_holds(now_s)):
            return []
        due = self._held.continuations(now_s, self._pool.free_slots)
        if self._lease.may_sweep(now_s):
            return due
        # After an outage of the database the owners of the others have to renew first.
        return [one for one in due if one.run in self._held.running]

    def _take(self, now_s: float, free_slots: int) -> None:
        room = free_slots - len(self._held.claiming)
        if not self.taking or room <= 0 or not self._lease.lease_holds(now_s):
            return
        due = self._take_due(now_s, room)
        for one in [*due, *self._buffer.take(room - len(due))]:
            if isinstance(one, Delivery):
                self._held.claiming.append(one)
            else:
                self._held.refusing.append(one)

    def _take_due(self, now_s: float, room: int) -> list[Received]:
        """Return retries; while others queue for slots, only now and then, so that many share
        the statements that their claims cost more."""
        if len(self._buffer) and now_s < self._due_taken_s + DUE_EVERY_S:
            return []
        self._due_taken_s = now_s
        return self._due.take(room)

    def _claimable(self, now_s: float, free_slots: int) -> list[Delivery]:
        if self._lease.lease_holds(now_s):
            return self._held.claiming[:free_slots]
        # A claim of an owner whose lease is over would be swept at once, and parked in doubt.
        self._told.given_up(self._buffer.take_older_than(now_s - self._journal_wait_s))
        return []

    def _has_more_to_write(self, now_s: float) -> bool:
        held = self._held
        if held.refusing or held.finishes or held.effects or self._published:
            return True
        return self._published_due(now_s)

    def _published_due(self, now_s: float) -> bool:
        told = self._teller.told_count
        return told >= PUBLISHED_AT_ONCE or (
            told > 0 and now_s - self._published_s >= PUBLISHED_EVERY_S
        )

    def _write(
        self, batch: Sequence[Delivery], again: Sequence[Continuation], now_s: float
    ) -> Applied:
        """One transaction for the whole turn; repeated as it is when its outcome is unknown."""
        if not self._published and self._published_due(now_s):
            # Kept until it is written: what is away must always have something to be tried with.
            self._published = tuple(self._teller.take_told())
            self._published_s = now_s
        applied = self._journal.apply(
            claims=[entries.claim(one) for one in batch],
            refusals=self._refusals(),
            effects=list(self._held.effects.values()),
            takeovers=[one.takeover for one in again],
            finishes=list(self._held.finishes.values()),
            published=self._published,
            # Also what waits to be taken over: it may be ours already, by a call of unknown
            # outcome, and a resend of it must not pass for the run that this call allowed.
            held=self._held.running.keys() | self._held.continuing.keys(),
        )
        self._published = ()
        return applied

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
        asking = self._held.asking
        self._pool.dispatch(
            [
                entries.job(delivery, row, asks=(row.request_id, row.generation) in asking)
                for delivery, row in granted
            ]
        )
        self._held.running |= {(row.request_id, row.generation): one for one, row in granted}
        self._teller.tell_running(row for _, row in granted)

    # the journal away ----------------------------------------------------------------------

    def _patience_s(self) -> float:
        if self.journal_away:
            return AWAY_POLL_S
        waits = self._held.claiming or self._held.continuing
        if waits and not self._lease.lease_holds(monotonic_s()):
            return AWAY_POLL_S
        # What the last turn left over, and what it refused, is written without waiting.
        left_over = self._held.claiming and self._pool.free_slots
        if self._held.refusing or left_over:
            return 0.0
        now_s = monotonic_s()
        due_s = self._held.next_due_s() if self._pool.free_slots else None
        if due_s is None:
            return IDLE_POLL_S
        # What is due and may not go on yet is looked at again, and not without a pause.
        soonest_s = 0.0 if self._lease.may_sweep(now_s) else AWAY_POLL_S
        return min(IDLE_POLL_S, max(soonest_s, due_s - now_s))

    def _journal_lost(self, error: JournalUnavailable, now_s: float) -> None:
        if not self.journal_away:
            log.warning("journal.away", reason=error.reason, held=self.held)
        self.journal_away = True
        self._retry_at_s = now_s + AWAY_POLL_S
        self._told.given_up(self._buffer.take_older_than(now_s - self._journal_wait_s))

    def _journal_answered(self) -> None:
        if self.journal_away:
            self.journal_away = False
            log.info("journal.back", finishes=len(self._held.finishes))

    # ending --------------------------------------------------------------------------------

    def give_up(self, received: Iterable[Received], *, code: str) -> None:
        """Say that nobody holds these: they were never claimed, so they read as LOST."""
        self._told.given_up(received, code=code)

    def write_rest(self) -> None:
        """Write what is left at the very end: refusals, and what clients have been told.

        Raises:
            JournalUnavailable: a sweep tells clients again, which is harmless; the rows of the
                refusals are missing, which the audit reports.
        """
        told = (*self._published, *self._teller.take_told())
        self._told.refused(self._journal.apply(published=told, refusals=self._refusals()))
        if self._held.refusing:
            # One that met another request's id has a row of its own now; there is no third kind.
            self._told.refused(self._journal.apply(refusals=self._refusals()))

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
        self._told.finished(
            self._journal.apply(
                refusals=self._refusals(), finishes=list(self._held.finishes.values())
            )
        )
        return cut

    def _refusals(self) -> list[Refusal]:
        return [entries.refusal(one) for one in self._held.refusing]
