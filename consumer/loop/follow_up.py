"""The follow-up of a transaction: clients are told, features hear, and granted runs go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from consumer.handlers.delivery import (
    INVALID_MESSAGE,
    Delivery,
    RefusedRecord,
    mismatch,
    mismatch_of_refused,
    refused_delivery,
)
from consumer.journal import (
    Applied,
    ClaimVerdict,
    FinishKind,
    Row,
    TakeoverResultKind,
    VerdictKind,
)
from consumer.journal.claims.verdict import is_same_request
from consumer.loop import mapping
from consumer.loop.continuation import Continuation
from consumer.loop.feature import Feature, that_have
from consumer.loop.granted import claimed_delivery, placed_delivery, retried
from consumer.loop.in_flight import InFlight
from consumer.loop.scheduler import Scheduler
from consumer.loop.settlement import Settlement, Skipping
from consumer.status import status_messages
from consumer.status.status_writer import StatusWriter
from feedback.clock import epoch_ms, monotonic_s
from feedback.logs import EventLog
from feedback.records.envelope import Record
from feedback.statuses import StatusWrite

log = EventLog("onceward.worker")

JOURNAL_UNAVAILABLE = "JOURNAL_UNAVAILABLE"


class FollowUp:
    """Carries out the journal's decisions on requests in flight. Belongs to the loop's thread.

    Args:
        in_flight: the requests that it reads and changes.
        scheduler: given the requests that wait for another one of their key.
        status_writer: tells clients.
        features: hear how requests end.
    """

    def __init__(
        self,
        *,
        worker_id: str,
        in_flight: InFlight,
        scheduler: Scheduler,
        status_writer: StatusWriter,
        features: Sequence[Feature],
    ) -> None:
        self._worker_id = worker_id
        self._in_flight = in_flight
        self._scheduler = scheduler
        self._status_writer = status_writer
        self._features = features
        self._hear_ended = that_have(features, Feature.ended)
        self._has_warned_of_late = False

    def heard(self) -> None:
        """Report the pool's events that the journal has written, or has to be asked about."""
        unwritten = self._in_flight.take_unwritten()
        committed = [one for one in unwritten if one.is_committed]
        self._tell_ends(committed)
        self._hear_ends(committed)
        retrying = [one for one in unwritten if not one.is_committed]
        self._hear_ends(retrying)
        now_ms, now_s = epoch_ms(), monotonic_s()
        self._status_writer.tell(
            status_messages.retrying(
                one.delivery,
                one.run[1],
                worker_id=self._worker_id,
                due_at=now_ms + int(1000 * max(0.0, one.follows.due_s - now_s)),
            )
            for one in retrying
            if one.follows is not None
        )

    def finished(self, applied: Applied) -> None:
        """Tell how runs ended, as it is written now."""
        settlements = self._in_flight.take_settlements()
        ended: list[Settlement] = []
        self._restored(applied)
        for settled in settlements:
            run = settled.run
            result = applied.finished[run]
            one = settled.written(result)
            is_ours = self._in_flight.end(one, result.kind)
            if result.kind is FinishKind.STALE:
                log.warning("finish.stale", request_id=run[0], generation=run[1])
            if is_ours and (one.stands or result.kind is not FinishKind.STALE):
                ended.append(one)
            if result.row is not None and not (is_ours and result.kind is FinishKind.LOST):
                # The row says something else than we asked for, or than we know: it is the truth.
                self._answer(result.row, one.delivery)
        self._tell_ends([one for one in ended if one.stands])
        self._hear_ends(ended)
        self.refused(applied)

    def _restored(self, applied: Applied) -> None:
        """Report runs of ours that the journal had lost and has again."""
        self._in_flight.lost_written()
        if not applied.restored:
            return
        for row in applied.restored:
            log.warning(
                "run.restored",
                request_id=row.request_id,
                generation=row.generation,
                state=row.state,
            )
        # What the end of a run of this turn has written is told with that end.
        told = [
            row
            for row in applied.restored
            if (row.request_id, row.generation) not in applied.finished
        ]
        self._status_writer.tell([status_messages.from_row(row) for row in told])

    def skipped(self, skips: Sequence[Skipping], applied: Applied) -> None:
        """Report requests that were skipped for another."""
        rows = {row.request_id: row for row in applied.skipped}
        for feature in self._features:
            feature.skipped(skips, rows)
        told = [
            (one.delivery, rows[name]) for one in skips if (name := one.delivery.request_id) in rows
        ]
        for delivery, row in told:
            self._never_ran(row, delivery.record)
        self._status_writer.tell(
            [
                status_messages.from_row(row, attempt=delivery.envelope.attempt)
                for delivery, row in told
            ]
        )
        if told:
            log.info("requests.skipped", count=len(told), runs=len({one.by for one in skips}))

    def refused(self, applied: Applied) -> None:
        """Tell which records never run."""
        written = self._in_flight.take_refused()
        rows = {row.request_id: row for row in applied.refusals}
        for one in written:
            row = rows.get(one.request_id)
            is_mine = row is not None and is_same_request(mapping.refusal(one), row)
            if not is_mine and one.request_id != one.record.coordinates_id:
                # Another request has this id: the record gets a row of its own with the next turn.
                self._in_flight.refuse(mismatch_of_refused(one))
            elif row is not None:
                log.warning("request.refused", request_id=row.request_id, code=row.code)
                self._never_ran(row, one.record)
                is_later = is_mine and not _was_sent_before(one.reopens, row)
                attempt = one.attempt if is_later else None
                self._status_writer.tell([status_messages.from_row(row, attempt=attempt)])

    def claimed(
        self, batch: Sequence[Delivery], applied: Applied
    ) -> Iterator[tuple[Delivery, Row]]:
        """Yield the requests that may run, with their claims; report the rows of the others."""
        answers: list[StatusWrite] = []
        for delivery, verdict in zip(batch, applied.verdicts, strict=True):
            if self._granted(verdict, delivery, answers) and verdict.row is not None:
                self._in_flight.granted(verdict.row)
                yield placed_delivery(delivery, verdict.row, verdict.retried), verdict.row
        if answers:
            self._status_writer.tell(answers)

    def continued(
        self, again: Sequence[Continuation], applied: Applied
    ) -> Iterator[tuple[Delivery, Row]]:
        """Yield the runs that a takeover gave us; report the rows of the others."""
        for one in again:
            result = applied.takeovers[one.run]
            row = result.row
            ours = one.run in self._in_flight.running
            log.info(
                "run.followed",
                request_id=one.run[0],
                generation=one.run[1],
                because=one.takeover.because,
                kind=one.takeover.kind,
                result=result.kind,
            )
            if result.kind is TakeoverResultKind.DOUBTFUL and ours:
                self._in_flight.doubt(one)
                continue
            self._in_flight.forget(one.run)
            if row is None:
                continue
            if result.kind in (TakeoverResultKind.GRANTED, TakeoverResultKind.MINE):
                self._in_flight.follow(one, row.generation)
                yield retried(claimed_delivery(one.delivery, row), result.retried), row
            elif ours or result.kind is TakeoverResultKind.ENDED:
                self._answer(row, one.delivery)
                if result.kind is TakeoverResultKind.ENDED:
                    for feature in self._features:
                        feature.concluded(row)

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
                self._in_flight.refuse(one)
        if given_up:
            log.warning("requests.given_up", count=len(given_up), code=code)
            for feature in self._features:
                feature.given_up(given_up)
        self._status_writer.tell(
            [
                status_messages.given_up(one, worker_id=self._worker_id, code=code)
                for one in given_up
            ]
        )

    def _tell_ends(self, ends: Iterable[Settlement]) -> None:
        self._status_writer.tell(
            [
                status_messages.finished(
                    one.delivery, one.finish, worker_id=self._worker_id, due_at=one.due_at
                )
                for one in ends
                if one.finish is not None
            ]
        )

    def _hear_ends(self, ends: Iterable[Settlement]) -> None:
        for one in ends:
            for feature in self._hear_ended:
                feature.ended(one)

    def _never_ran(self, row: Row, record: Record) -> None:
        for feature in self._features:
            feature.never_ran(row, record)

    def _answer(self, row: Row, delivery: Delivery) -> None:
        """Report the journal's row of a request in place of the outcome seen here."""
        self._status_writer.tell([status_messages.from_row(row)])
        for feature in self._features:
            feature.answered(row, delivery.record)

    def _granted(
        self, verdict: ClaimVerdict, delivery: Delivery, answers: list[StatusWrite]
    ) -> bool:
        """Whether the delivery is to run; otherwise the journal's row is added to `answers`."""
        match verdict.kind:
            case VerdictKind.RUN:
                return True
            case VerdictKind.HELD:
                due_in_s = verdict.due_in_ms / 1000
                self._scheduler.hold_back(delivery, now_s=monotonic_s(), for_s=due_in_s)
                return False
            case _ if delivery.wakes:
                # For any verdict of the journal: a wake-up is no request, and leaves no row.
                log.debug("retry.answered", verdict=verdict.kind, request_id=delivery.request_id)
            case VerdictKind.MISMATCH:
                self._in_flight.refuse(mismatch(delivery))
            case VerdictKind.REFUSED:
                why = f"the journal cannot hold it: {verdict.reason}"
                self._in_flight.refuse(refused_delivery(delivery, INVALID_MESSAGE, why))
            case _:
                log.debug("request.answered", verdict=verdict.kind, request_id=delivery.request_id)
        if verdict.row is not None:
            if verdict.kind is VerdictKind.EXPIRED:
                self._warn_of_late(verdict.row)
                for feature in self._features:
                    feature.answered(verdict.row, delivery.record)
            restore = verdict.kind is VerdictKind.MISMATCH
            is_older = restore or _was_sent_before(delivery.envelope.reopens, verdict.row)
            attempt = None if is_older else delivery.envelope.attempt
            answers.append(status_messages.from_row(verdict.row, attempt=attempt, restore=restore))
        return False

    def _warn_of_late(self, row: Row) -> None:
        """Warn once about a request that was read past its deadline.

        Its client's clock may be behind, or no worker read.
        """
        if row.message is not None and not self._has_warned_of_late:
            self._has_warned_of_late = True
            log.warning("deadline.over_when_read", request_id=row.request_id, reason=row.message)


def _was_sent_before(reopens: int | None, row: Row) -> bool:
    """Whether a failure that may be reopened is told to nobody who has asked for that: this was
    sent before its client knew of it, and another sending may be on its way."""
    return row.resend and reopens is not None and reopens < row.generation
