"""The way of a request through the worker (contract, section 5), on one page.

    intake thread            this loop                          child          teller thread
    poll, ACCEPTED, commit ─▶ buffer ─▶ claim ─▶ dispatch ─────▶ handler
                                        finish ◀──────────────── outcome
                                        └──────────────────────────────────────▶ final status

One turn of the loop hears the pool, takes what has a slot, writes finishes, effects and claims in
one transaction of the journal, and only then acts on them. If the process dies
- before that transaction: what was taken is LOST and resent; what had finished is CLAIMED, its
  lease ends, and a sweep goes by the in-doubt policy;
- after it: claims are rows that a sweep finds, finishes are the truth and are told by a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from consumer import entries, telling
from consumer.buffer import Buffer
from consumer.delivery import (
    INVALID_MESSAGE,
    Delivery,
    RefusedRecord,
    mismatch,
    mismatch_of_refused,
    refused,
)
from consumer.held import Held
from consumer.journal import (
    Applied,
    Finish,
    FinishKind,
    Journal,
    JournalUnavailable,
    Published,
    Refusal,
    Verdict,
    VerdictKind,
)
from consumer.pool import Pool
from consumer.teller import Teller
from feedback.clock import monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.worker")

IDLE_POLL_S = 0.5
GATHER_S = 0.005
AWAY_POLL_S = 0.2
PUBLISHED_AT_ONCE = 512
PUBLISHED_EVERY_S = 1.0
JOURNAL_UNAVAILABLE = "JOURNAL_UNAVAILABLE"


class Lease(Protocol):
    """What the loop asks before it lets anything start."""

    def lease_holds(self, now_s: float) -> bool: ...


class Worker:
    """The loop between buffer, journal, pool and teller. Belongs to one thread.

    Args:
        slots: how many handlers run at the same time.
        journal_wait_s: how long a buffered request waits for an absent journal.
        on_backlog: told when requests begin to queue for slots, and when none does any more.
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
    ) -> None:
        self._worker_id = worker_id
        self._buffer = buffer
        self._journal = journal
        self._pool = pool
        self._teller = teller
        self._lease = lease
        self._journal_wait_s = journal_wait_s
        self._held = Held()
        self._on_backlog = on_backlog
        self._gather_count = slots // 4
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

    def turn(self) -> None:
        """Wait for something to do, and do it."""
        self._listen(self._patience_s())
        self._note_backlog()
        self._gather()
        now_s = monotonic_s()
        if self.journal_away and now_s < self._retry_at_s:
            return
        self._take(now_s)
        batch = self._claimable(now_s)
        if not (batch or self._has_more_to_write(now_s)):
            return
        try:
            applied = self._write(batch, now_s)
        except JournalUnavailable as error:
            self._journal_lost(error, now_s)
            return
        self._written_s = monotonic_s()
        self._journal_answered()
        self._answer_effects(applied)
        self._tell_finished(applied)
        del self._held.claiming[: len(batch)]
        self._dispatch(batch, applied)

    # hearing -------------------------------------------------------------------------------

    def _listen(self, timeout_s: float) -> None:
        for event in self._pool.poll(timeout_s):
            self._held.hear(event)
        self._tell_committed()

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
        while 0 < len(self._held.finishes) < self._gather_count and len(self._buffer):
            left_s = until_s - monotonic_s()
            if left_s <= 0:
                return
            self._listen(left_s)

    # claiming and writing ------------------------------------------------------------------

    def _take(self, now_s: float) -> None:
        room = self._pool.free_slots - len(self._held.claiming)
        if not self.taking or room <= 0 or not self._lease.lease_holds(now_s):
            return
        for one in self._buffer.take(room):
            if isinstance(one, Delivery):
                self._held.claiming.append(one)
            else:
                self._held.refusing.append(one)

    def _claimable(self, now_s: float) -> list[Delivery]:
        if self._lease.lease_holds(now_s):
            return self._held.claiming[: self._pool.free_slots]
        # A claim of an owner whose lease is over would be swept at once, and parked in doubt.
        self.give_up(self._buffer.take_older_than(now_s - self._journal_wait_s))
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

    def _write(self, batch: Sequence[Delivery], now_s: float) -> Applied:
        """One transaction for the whole turn; repeated as it is when its outcome is unknown."""
        if not self._published and self._published_due(now_s):
            # Kept until it is written: what is away must always have something to be tried with.
            self._published = tuple(self._teller.take_told())
            self._published_s = now_s
        applied = self._journal.apply(
            claims=[entries.claim(one) for one in batch],
            refusals=self._refusals(),
            effects=list(self._held.effects.values()),
            finishes=list(self._held.finishes.values()),
            published=self._published,
            held=self._held.running.keys(),
        )
        self._published = ()
        return applied

    # acting on what was written ------------------------------------------------------------

    def _answer_effects(self, applied: Applied) -> None:
        for run in self._held.effects:
            self._pool.answer_effect(*run, granted=run in applied.effects)
        self._held.effects.clear()

    def _tell_finished(self, applied: Applied) -> None:
        finishes, self._held.finishes = self._held.finishes, {}
        ends: list[tuple[Delivery, Finish]] = []
        for run, finish in finishes.items():
            delivery = self._held.running.pop(run, None)
            finished = applied.finished[run]
            if finished.kind is FinishKind.STALE:
                log.warning("finish.stale", request_id=run[0], generation=run[1])
            if finished.row is not None:
                # The row says something else than we asked for, or than we know: it is the truth.
                self._teller.tell([telling.from_row(finished.row)])
            elif delivery is not None:
                ends.append((delivery, finish))
        self._tell_ends(ends)
        self._tell_refused(applied)

    def _tell_committed(self) -> None:
        committed, self._held.committed = self._held.committed, []
        self._tell_ends(committed)

    def _tell_ends(self, ends: Sequence[tuple[Delivery, Finish]]) -> None:
        self._teller.tell(
            [telling.finished(one, finish, worker_id=self._worker_id) for one, finish in ends]
        )

    def _tell_refused(self, applied: Applied) -> None:
        written, self._held.refusing = self._held.refusing, []
        rows = {row.request_id: row for row in applied.refusals}
        for one in written:
            row = rows.get(one.request_id)
            is_mine = row is not None and row.payload_sha256 == one.payload_sha256
            if not is_mine and one.request_id != one.record.coordinates_id:
                # Another request has this id: the record gets a row of its own with the next turn.
                self._held.refusing.append(mismatch_of_refused(one))
            elif row is not None:
                log.warning("request.refused", request_id=row.request_id, code=row.code)
                attempt = one.attempt if is_mine else None
                self._teller.tell([telling.from_row(row, attempt=attempt)])

    def _granted(self, verdict: Verdict, delivery: Delivery) -> bool:
        """Whether the delivery is to run; otherwise its client is told what the journal says."""
        match verdict.kind:
            case VerdictKind.RUN:
                return True
            case VerdictKind.MISMATCH:
                self._held.refusing.append(mismatch(delivery))
            case VerdictKind.REFUSED:
                why = f"the journal cannot hold it: {verdict.reason}"
                self._held.refusing.append(refused(delivery, INVALID_MESSAGE, why))
            case _:
                log.debug("request.answered", verdict=verdict.kind, request_id=delivery.request_id)
        if verdict.row is not None:
            restore = verdict.kind is VerdictKind.MISMATCH
            attempt = None if restore else delivery.envelope.attempt
            self._teller.tell([telling.from_row(verdict.row, attempt=attempt, restore=restore)])
        return False

    def _dispatch(self, batch: Sequence[Delivery], applied: Applied) -> None:
        granted = [
            (delivery, verdict.row)
            for delivery, verdict in zip(batch, applied.verdicts, strict=True)
            if self._granted(verdict, delivery) and verdict.row is not None
        ]
        if not granted:
            return
        # ---- The guarantee (contract, section 3) ------------------------------------------------
        # What is dispatched below was committed in Kafka before it came into the buffer, and its
        # claim was committed in the journal a moment ago, as this generation and to us alone. Our
        # lease has not ended; should it end now, the generation refuses the effect and the finish.
        if not self._lease.lease_holds(monotonic_s()):
            log.warning("lease.ended_before_dispatch", requests=len(granted))
            self._held.claiming += [delivery for delivery, _ in granted]
            return
        self._pool.dispatch([entries.job(delivery, row) for delivery, row in granted])
        self._held.running |= {(row.request_id, row.generation): one for one, row in granted}
        self._teller.tell_running(row for _, row in granted)

    # the journal away ----------------------------------------------------------------------

    def _patience_s(self) -> float:
        if self.journal_away:
            return AWAY_POLL_S
        if self._held.claiming and not self._lease.lease_holds(monotonic_s()):
            return AWAY_POLL_S
        # What the last turn left over, and what it refused, is written without waiting.
        left_over = self._held.claiming and self._pool.free_slots
        return 0.0 if self._held.refusing or left_over else IDLE_POLL_S

    def _journal_lost(self, error: JournalUnavailable, now_s: float) -> None:
        if not self.journal_away:
            log.warning("journal.away", reason=error.reason, held=self.held)
        self.journal_away = True
        self._retry_at_s = now_s + AWAY_POLL_S
        self.give_up(self._buffer.take_older_than(now_s - self._journal_wait_s))

    def _journal_answered(self) -> None:
        if self.journal_away:
            self.journal_away = False
            log.info("journal.back", finishes=len(self._held.finishes))

    # ending --------------------------------------------------------------------------------

    def give_up(
        self, received: Iterable[Delivery | RefusedRecord], *, code: str = JOURNAL_UNAVAILABLE
    ) -> None:
        """Say that nobody holds these: they were never claimed, so they read as LOST.

        A refused record is nobody's to resend: it is written with the next turn.
        """
        given_up: list[Delivery] = []
        for one in received:
            if isinstance(one, Delivery):
                given_up.append(one)
            else:
                self._held.refusing.append(one)
        if given_up:
            log.warning("requests.given_up", count=len(given_up), code=code)
        self._teller.tell(
            [telling.given_up(one, worker_id=self._worker_id, code=code) for one in given_up]
        )

    def write_rest(self) -> None:
        """Write what is left at the very end: refusals, and what clients have been told.

        Raises:
            JournalUnavailable: a sweep tells clients again, which is harmless; the rows of the
                refusals are missing, which the audit reports.
        """
        told = (*self._published, *self._teller.take_told())
        self._tell_refused(self._journal.apply(published=told, refusals=self._refusals()))
        if self._held.refusing:
            # One that met another request's id has a row of its own now; there is no third kind.
            self._tell_refused(self._journal.apply(refusals=self._refusals()))

    def cut(self) -> int:
        """Kill what runs and write what became of it; return how many requests were cut.

        What was claimed and not begun stays claimed: a peer's sweep ends it.

        Raises:
            JournalUnavailable: their claims stand; a peer's sweep ends them by the policy.
        """
        cut = len(self._held.running) + len(self._held.claiming)
        for event in self._pool.kill():
            self._held.hear(event)
        self._tell_committed()
        for delivery in self._held.claiming:
            log.warning("request.not_started", request_id=delivery.request_id)
        self._tell_finished(
            self._journal.apply(
                refusals=self._refusals(), finishes=list(self._held.finishes.values())
            )
        )
        return cut

    def _refusals(self) -> list[Refusal]:
        return [entries.refusal(one) for one in self._held.refusing]
