"""What a transaction of the journal means for what the worker holds: who is told, what may run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from consumer.features.collapse.collapsing import Skipping
from consumer.features.dead_letters.evidence import NO_EVIDENCE, NoEvidence
from consumer.features.outcomes.news import NO_NEWS, NoNews
from consumer.features.pausing.pausing import NEVER_PAUSED, Pausing
from consumer.features.pausing.ways import way_of, way_without_end
from consumer.features.retries.following import wakeup
from consumer.features.retries.wakeup import WakeUp
from consumer.handlers.delivery import (
    INVALID_MESSAGE,
    Delivery,
    RefusedRecord,
    mismatch,
    mismatch_of_refused,
    refused,
)
from consumer.journal import (
    Applied,
    Finish,
    FinishKind,
    FinishResult,
    OwnRun,
    Row,
    TakeoverResultKind,
    Verdict,
    VerdictKind,
)
from consumer.journal.verdict import is_same_request
from consumer.loop import entries
from consumer.loop.continuation import Continuation
from consumer.loop.granted import claimed, placed, retried
from consumer.loop.held import Held
from consumer.ops.health.metrics import Metrics
from consumer.status import status_messages as telling
from consumer.status.status_writer import Teller
from feedback.clock import epoch_ms, monotonic_s
from feedback.logs import EventLog
from feedback.status import State
from feedback.statuses import StatusWrite

log = EventLog("onceward.worker")

JOURNAL_UNAVAILABLE = "JOURNAL_UNAVAILABLE"

End = tuple[Delivery, Finish, int | None]


def no_retries(wakeups: Sequence[WakeUp]) -> None:
    """Send nothing: a sweep wakes up what waits."""


def nobody_hears(given_up: Sequence[Delivery]) -> None:
    """Leave it to their clients."""


class OnHeld(Protocol):
    """Takes a request whose key the journal does not let go on for `for_s`, as far as it knows."""

    def __call__(self, one: Delivery, *, now_s: float, for_s: float) -> None: ...


class Consequences:
    """Carries out what the journal has decided about what is held. Belongs to the loop's thread.

    Args:
        held: what it is about, and what it changes.
        teller: who tells clients.
        metrics: told how requests end.
        evidence: given what failed for good.
        on_retrying: given what waits for its next run, once the journal says so.
        on_held: given what waits for another request of its key.
        pausing: told how runs end, and what becomes a dead letter.
        news: told what has ended, for its outcome.
        on_given_up: given what this worker does not run after all.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        held: Held,
        teller: Teller,
        metrics: Metrics,
        on_held: OnHeld,
        evidence: NoEvidence = NO_EVIDENCE,
        on_retrying: Callable[[Sequence[WakeUp]], None] = no_retries,
        pausing: Pausing = NEVER_PAUSED,
        news: NoNews = NO_NEWS,
        on_given_up: Callable[[Sequence[Delivery]], None] = nobody_hears,
    ) -> None:
        self._on_given_up = on_given_up
        self._evidence = evidence
        self._news = news
        self._pausing = pausing
        self._on_retrying = on_retrying
        self._on_held = on_held
        self._worker_id = worker_id
        self._held = held
        self._teller = teller
        self._metrics = metrics
        self._has_warned_of_late = False

    def heard(self) -> None:
        """Tell what the pool told and the journal has, or has to be asked for."""
        committed, self._held.committed = self._held.committed, []
        for delivery, finish in committed:
            self._pausing.ended(delivery, way_of(finish, delivery.handler, None))
        self._tell_ends([(delivery, finish, None) for delivery, finish in committed])
        retrying, self._held.retrying = self._held.retrying, []
        for one in retrying:
            topic = one.delivery.record.topic
            self._metrics.outcome(topic, State.RETRYING, one.takeover.because)
            self._pausing.ended(one.delivery, way_without_end(one.takeover.because))
        now_ms, now_s = epoch_ms(), monotonic_s()
        self._teller.tell(
            telling.retrying(
                one.delivery,
                one.takeover.generation,
                worker_id=self._worker_id,
                due_at=now_ms + int(1000 * max(0.0, one.due_s - now_s)),
            )
            for one in retrying
        )

    def finished(self, applied: Applied) -> None:
        """Tell how runs ended, as it is written now."""
        finishes, self._held.finishes = self._held.finishes, {}
        ends: list[End] = []
        wakeups: list[WakeUp] = []
        self._restored(applied)
        for run, finish in finishes.items():
            entered = self._held.may_have_acted(run)
            delivery = self._held.forget(run)
            raised = self._held.raised.pop(run, None)
            finished = applied.finished[run]
            finish = finished.resolution or finish
            own: OwnRun | None = None
            if delivery is not None and finished.kind is not FinishKind.STALE:
                own = OwnRun(entries.claim(delivery), run[1], entered, finish)
            if finished.kind is FinishKind.STALE:
                log.warning("finish.stale", request_id=run[0], generation=run[1])
            elif delivery is not None:
                self._pausing.ended(delivery, way_of(finish, delivery.handler, raised))
            if own is not None and finished.kind is FinishKind.LOST:
                self._held.lost += self._held.with_earlier(own)
            elif finished.row is not None:
                # The row says something else than we asked for, or than we know: it is the truth.
                self._teller.tell([telling.from_row(finished.row)])
                self._pausing.stands(finished.row)
            elif delivery is not None:
                ends.append((delivery, finish, finished.due_at))
                if finish.state == State.FAILED and not finish.resend:
                    self._evidence.failed(run, delivery.record, raised)
                    self._pausing.failed(delivery.handler.topic, run[0], finish.code)
            if own is not None:
                self._held.ended.note(own)
            due_at = _due_at(finish, finished)
            if delivery is not None and due_at is not None:
                wakeups.append(wakeup(delivery, finish, due_at=due_at))
        self._tell_ends(ends)
        if wakeups:
            self._on_retrying(wakeups)
        self.refused(applied)

    def _restored(self, applied: Applied) -> None:
        """Tell what the journal had lost of our runs, and says again."""
        self._held.lost.clear()
        if not applied.restored:
            return
        for row in applied.restored:
            log.warning(
                "run.restored",
                request_id=row.request_id,
                generation=row.generation,
                state=row.state,
            )
        self._teller.tell([telling.from_row(row) for row in applied.restored])

    def skipped(self, skips: Sequence[Skipping], applied: Applied) -> None:
        """Tell what has ended in another's stead."""
        rows = {row.request_id: row for row in applied.skipped}
        told = [
            (one.delivery, rows[name]) for one in skips if (name := one.delivery.request_id) in rows
        ]
        for delivery, row in told:
            self._metrics.outcome(delivery.record.topic, row.state, row.code)
            if delivery.handler.outcome_topic is not None:
                self._news.ended((row.request_id, row.generation), delivery.record)
        self._teller.tell(
            [telling.from_row(row, attempt=delivery.envelope.attempt) for delivery, row in told]
        )
        if told:
            log.info("requests.skipped", count=len(told), runs=len({one.by for one in skips}))

    def refused(self, applied: Applied) -> None:
        """Tell which records never run."""
        written, self._held.refusing = self._held.refusing, []
        rows = {row.request_id: row for row in applied.refusals}
        for one in written:
            row = rows.get(one.request_id)
            is_mine = row is not None and is_same_request(entries.refusal(one), row)
            if not is_mine and one.request_id != one.record.coordinates_id:
                # Another request has this id: the record gets a row of its own with the next turn.
                self._held.refusing.append(mismatch_of_refused(one))
            elif row is not None:
                log.warning("request.refused", request_id=row.request_id, code=row.code)
                self._metrics.outcome(one.record.topic, row.state, row.code)
                self._evidence.failed((row.request_id, row.generation), one.record, None)
                self._news.ended((row.request_id, row.generation), one.record)
                self._pausing.stands(row)
                attempt = one.attempt if is_mine else None
                self._teller.tell([telling.from_row(row, attempt=attempt)])

    def claimed(
        self, batch: Sequence[Delivery], applied: Applied
    ) -> Iterator[tuple[Delivery, Row]]:
        """Yield what may run, with its claim; of the rest, tell what the journal says."""
        answers: list[StatusWrite] = []
        for delivery, verdict in zip(batch, applied.verdicts, strict=True):
            if self._granted(verdict, delivery, answers) and verdict.row is not None:
                self._note_takeover(verdict.row)
                yield placed(delivery, verdict.row, verdict.retried), verdict.row
        if answers:
            self._teller.tell(answers)

    def _note_takeover(self, row: Row) -> None:
        """Remember what run came before, where a takeover of unknown outcome led to this claim."""
        one = self._held.continuing.get((row.request_id, row.generation - 1))
        if one is not None:
            self._held.forget(one.run)
            self._held.follow(one, row.generation)

    def continued(
        self, again: Sequence[Continuation], applied: Applied
    ) -> Iterator[tuple[Delivery, Row]]:
        """Yield what a takeover has put into our hands; of the rest, tell what the journal says."""
        for one in again:
            result = applied.takeovers[one.run]
            row = result.row
            ours = one.run in self._held.running
            log.info(
                "run.followed",
                request_id=one.run[0],
                generation=one.run[1],
                because=one.takeover.because,
                kind=one.takeover.kind,
                result=result.kind,
            )
            if result.kind is TakeoverResultKind.DOUBTFUL and ours:
                # An effect mark of unknown outcome had been written after all.
                del self._held.continuing[one.run]
                self._held.doubt(one.run, one.takeover.because, "its effect had begun")
                continue
            self._held.forget(one.run)
            if row is None:
                continue
            if result.kind in (TakeoverResultKind.GRANTED, TakeoverResultKind.MINE):
                self._held.follow(one, row.generation)
                yield retried(claimed(one.delivery, row), result.retried), row
            elif ours or result.kind is TakeoverResultKind.ENDED:
                self._teller.tell([telling.from_row(row)])
                self._pausing.stands(row)

    def given_up(
        self, received: Iterable[Delivery | RefusedRecord], *, code: str = JOURNAL_UNAVAILABLE
    ) -> None:
        """Say that nobody holds these: they were never claimed, so they read as LOST.

        A refused record is nobody's to resend: it is written with the next turn.
        """
        given_up: list[Delivery] = []
        for one in received:
            if isinstance(one, Delivery) and one.wakes:
                continue  # its row waits for it, and a sweep wakes it up again
            if isinstance(one, Delivery):
                given_up.append(one)
            else:
                self._held.refusing.append(one)
        if given_up:
            log.warning("requests.given_up", count=len(given_up), code=code)
            self._on_given_up(given_up)
        self._teller.tell(
            [telling.given_up(one, worker_id=self._worker_id, code=code) for one in given_up]
        )

    def _tell_ends(self, ends: Sequence[End]) -> None:
        for one, finish, _ in ends:
            self._metrics.outcome(one.record.topic, finish.state, finish.code)
            if one.handler.outcome_topic is not None:
                self._news.ended((finish.request_id, finish.generation), one.record)
        self._teller.tell(
            [
                telling.finished(one, finish, worker_id=self._worker_id, due_at=due_at)
                for one, finish, due_at in ends
            ]
        )

    def _granted(self, verdict: Verdict, delivery: Delivery, answers: list[StatusWrite]) -> bool:
        """Whether the delivery is to run; otherwise what the journal says is added to `answers`."""
        match verdict.kind:
            case VerdictKind.RUN:
                return True
            case VerdictKind.HELD:
                self._on_held(delivery, now_s=monotonic_s(), for_s=verdict.due_in_ms / 1000)
                return False
            case _ if delivery.wakes:
                # Whatever the journal says of it: a wake-up is no request, and leaves no row.
                log.debug("retry.answered", verdict=verdict.kind, request_id=delivery.request_id)
            case VerdictKind.MISMATCH:
                self._held.refusing.append(mismatch(delivery))
            case VerdictKind.REFUSED:
                why = f"the journal cannot hold it: {verdict.reason}"
                self._held.refusing.append(refused(delivery, INVALID_MESSAGE, why))
            case _:
                log.debug("request.answered", verdict=verdict.kind, request_id=delivery.request_id)
        if verdict.row is not None:
            if verdict.kind is VerdictKind.EXPIRED:
                self._warn_of_late(verdict.row)
                self._news.ended((verdict.row.request_id, verdict.row.generation), delivery.record)
            restore = verdict.kind is VerdictKind.MISMATCH
            is_older = restore or _was_sent_before(delivery, verdict.row)
            attempt = None if is_older else delivery.envelope.attempt
            answers.append(telling.from_row(verdict.row, attempt=attempt, restore=restore))
        return False

    def _warn_of_late(self, row: Row) -> None:
        """Say once that what is read is over: its client's clock may be behind, or nobody read."""
        if row.message is not None and not self._has_warned_of_late:
            self._has_warned_of_late = True
            log.warning("deadline.over_when_read", request_id=row.request_id, reason=row.message)


def _was_sent_before(delivery: Delivery, row: Row) -> bool:
    """Whether a failure that may be reopened is told to nobody who has asked for that: this was
    sent before its client knew of it, and another sending may be on its way."""
    reopens = delivery.envelope.reopens
    return row.resend and reopens is not None and reopens < row.generation


def _due_at(finish: Finish, finished: FinishResult) -> int | None:
    """Return when the run after this one is due; None when none was written to follow."""
    is_written = finished.kind in (FinishKind.WRITTEN, FinishKind.ALREADY)
    if not is_written or finish.state != State.RETRYING:
        return None
    return finished.due_at if finished.row is None else finished.row.due_at
