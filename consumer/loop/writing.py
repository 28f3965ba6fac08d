"""Writes the changes of one turn of the loop into the journal, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from consumer.handlers.delivery import Delivery
from consumer.journal import (
    Applied,
    Journal,
    JournalUnavailable,
    OwnRun,
    Published,
    Refusal,
    TakeoverKind,
    ToldRun,
    Work,
)
from consumer.loop import mapping
from consumer.loop.continuation import Continuation
from consumer.loop.in_flight import InFlight
from consumer.loop.settlement import Skipping
from consumer.loop.told_runs import ToldRuns, as_ended, leads
from consumer.status.status_writer import StatusWriter

PUBLISHED_AT_ONCE = 512
PUBLISHED_EVERY_S = 1.0


class Writing:
    """Writes the requests in flight and confirmed statuses. Belongs to the loop's thread.

    Args:
        in_flight: the requests in flight; left as they are, for the caller that acts on the result.
        status_writer: knows the statuses that Redis has confirmed.
        told_runs: reads the statuses of requests that are about to run again, or to end.
        worker_id: whose claims these are.

    Attributes:
        published: confirmed statuses, from before a write until the journal has them.
    """

    def __init__(
        self,
        *,
        in_flight: InFlight,
        journal: Journal,
        status_writer: StatusWriter,
        told_runs: ToldRuns,
        worker_id: str,
    ) -> None:
        self._worker_id = worker_id
        self._in_flight = in_flight
        self._told_runs = told_runs
        self._journal = journal
        self._status_writer = status_writer
        self._published_s = 0.0
        self.published: tuple[Published, ...] = ()

    def has_more(self, now_s: float) -> bool:
        """Whether there is anything to write beside claims and takeovers."""
        hands = self._in_flight
        if hands.refusing or hands.settlements or hands.effects or hands.lost or self.published:
            return True
        return self._published_due(now_s)

    def write(
        self,
        batch: Sequence[Delivery],
        again: Sequence[Continuation],
        now_s: float,
        *,
        skips: Sequence[Skipping] = (),
    ) -> Applied:
        """Write all of a turn; repeated as it is when its outcome is unknown.

        Args:
            batch: the requests to claim.
            again: the runs to take over.
            skips: the requests to end, since others have succeeded in their stead.

        Raises:
            JournalUnavailable: the outcome is unknown; the same call may be repeated.
        """
        if not self.published and self._published_due(now_s):
            # Kept until it is written: with a journal that is away there must be something left to
            # try.
            self.published = tuple(self._status_writer.take_told())
            self._published_s = now_s
        # Before the journal is asked: it must know each status that is in Redis by now.
        delivered = [*batch, *(one.delivery for one in skips)]
        told_runs = self._told_of(delivered, again)
        work = Work(
            own_runs=[
                *self._in_flight.lost,
                *self._in_flight.granted_again(batch),
                *self._remembered(delivered, again, told_runs),
            ],
            told_runs=told_runs,
            finishes=self._in_flight.finishes,
            effects=list(self._in_flight.effects.values()),
            takeovers=[one.takeover for one in again],
            published=self.published,
            refusals=self._refusals(),
            skips=[one.entry for one in skips],
            claims=[mapping.claim(one) for one in batch],
        )
        try:
            applied = self._journal.apply(
                work,
                # Also runs that wait to be taken over: they may be ours already, by a call of
                # unknown outcome, and a resend must not pass for the run that this call allowed.
                held=self._in_flight.runs(),
                tried=self._in_flight.tried,
            )
        except JournalUnavailable:
            self._in_flight.unanswered(batch)
            raise
        self._in_flight.answered(batch)
        self.published = ()
        return applied

    def write_ends(self) -> Applied:
        """Write only how runs ended, and refusals.

        Raises:
            JournalUnavailable: the outcome is unknown.
        """
        return self._journal.apply(
            Work(
                own_runs=self._in_flight.lost,
                finishes=self._in_flight.finishes,
                refusals=self._refusals(),
            )
        )

    def write_unbegun(self) -> None:
        """Say of runs that no child began that their effect did not begin; peers run them again.

        Nothing here may begin them afterwards.

        Raises:
            JournalUnavailable: their claims stand as they are; a sweep goes by the policy.
        """
        if self._in_flight.unbegun:
            self._journal.mark_unbegun(sorted(self._in_flight.unbegun))

    def write_told(self) -> Applied:
        """Write only refusals, and all that clients have been told.

        Raises:
            JournalUnavailable: a sweep tells clients again.
        """
        told = (*self.published, *self._status_writer.take_told())
        return self._journal.apply(Work(published=told, refusals=self._refusals()))

    def write_refusals(self) -> Applied:
        """Write only refusals.

        Raises:
            JournalUnavailable: the outcome is unknown.
        """
        return self._journal.apply(Work(refusals=self._refusals()))

    def _remembered(
        self,
        delivered: Sequence[Delivery],
        again: Sequence[Continuation],
        told_runs: Sequence[ToldRun],
    ) -> Iterator[OwnRun]:
        """Yield how earlier runs of these ended here: the journal may not know.

        They are about to run again, or to be skipped.
        """
        for one in delivered:
            ended = self._in_flight.ended_here(one.request_id)
            # A wake-up is granted only where the run before it stands as it ended.
            if ended is not None and one.wakes != ended.generation:
                yield ended
        for wish in again:
            ended = self._in_flight.ended_here(wish.takeover.request_id)
            if ended is not None:
                yield ended
        # A run of ours that the journal has lost would be taken for one that never was.
        told = {one.request_id: one for one in told_runs}
        ours = [one.run for one in again if one.run in self._in_flight.running]
        yield from (
            self._in_flight.own_run(run) for run in ours if not leads(told.get(run[0]), run)
        )
        voided = {one.run for one in again if one.takeover.kind is TakeoverKind.VOIDED}
        for run in [*ours, *self._in_flight.lapsed_at_effects]:
            known = told.get(run[0])
            if known is not None and known.run == run and leads(known, run):
                is_doubtful = run not in voided and self._in_flight.leaves_doubt(run)
                yield as_ended(known, may_have_acted=is_doubtful)

    def _told_of(
        self, delivered: Sequence[Delivery], again: Sequence[Continuation]
    ) -> list[ToldRun]:
        """Return the statuses of runs that are not in flight here: of those in flight we know more.

        But for runs that others may have gone on with, where the database has lost that: those
        about to go on without their claims, for the dead, or into an effect after our lease was
        over.
        """
        asked = [one for one in delivered if one.may_have_run]
        if asked:
            in_hand = {name for name, _ in self._in_flight.running}
            asked = [one for one in asked if one.request_id not in in_hand]
        asked += [one.delivery for one in again]
        asked += [self._in_flight.running[run] for run in self._in_flight.lapsed_at_effects]
        told = self._told_runs.of(asked) if asked else []
        return [one.disowned() if self._is_over(one) else one for one in told]

    def _is_over(self, one: ToldRun) -> bool:
        """Whether a run was ours and is not in hand any more: as a claim of ours it would pass for
        one that an earlier try made, and be granted."""
        return one.owner == self._worker_id and one.run not in self._in_flight.runs()

    def _published_due(self, now_s: float) -> bool:
        told = self._status_writer.told_count
        return told >= PUBLISHED_AT_ONCE or (
            told > 0 and now_s - self._published_s >= PUBLISHED_EVERY_S
        )

    def _refusals(self) -> list[Refusal]:
        return [mapping.refusal(one) for one in self._in_flight.refusing]
