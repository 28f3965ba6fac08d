"""Commits the writes of one call: whole, in parts of keys, in halves around a refused item."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from consumer.journal.claims.takeover import granted_names
from consumer.journal.errors import Contended, DataRefused
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.losses.restoring import mark_unbegun
from consumer.journal.records import (
    Applied,
    ClaimVerdict,
    Finish,
    FinishResult,
    Run,
    TakeoverResult,
    TakeoverResultKind,
    VerdictKind,
)
from consumer.journal.session import JournalSession
from consumer.journal.work import Work

# PostgreSQL has room for 64 locks of each of its connections, and a worker has several of these.
KEYS_AT_ONCE = 256
NOTHING = Applied((), frozenset(), {}, ())


class Commits:
    """The commits of one worker, on its connection.

    Args:
        writer_on: makes the worker that writes, for a transaction on this connection.

    Attributes:
        expects_rows: whether most claims of the next call are probably resends.
    """

    def __init__(
        self, session: JournalSession, writer_on: Callable[[Connection], JournalWriter]
    ) -> None:
        self._session = session
        self._writer_on = writer_on
        self.expects_rows = False

    def commit(self, work: Work, held: Collection[Run], tried: Collection[str]) -> Applied:
        """Commit claims of very many keys one part after the other: each key is a lock."""
        first, rest = work.cut(KEYS_AT_ONCE)
        done = self._settle(first, held, tried)
        if rest is None:
            return done
        return _joined(done, self.commit(rest, _held_after(done, held), tried))

    def mark_unbegun(self, runs: Sequence[Run]) -> None:
        """Commit that claims are of runs that never began, as `Journal.mark_unbegun` says."""
        try:
            self._mark_unbegun(runs)
        except Contended:
            # As in `_tried_twice`.
            self._mark_unbegun(runs)

    def _mark_unbegun(self, runs: Sequence[Run]) -> None:
        with self._session.transaction() as connection:
            mark_unbegun(self._writer_on(connection), runs)

    def _settle(self, work: Work, held: Collection[Run], tried: Collection[str]) -> Applied:
        try:
            return self._tried_twice(work, held, tried)
        except DataRefused as refused:
            if len(work) == 1:
                return self._set_apart(work, held, refused.reason)
        first, second = work.halves()
        done = self._settle(first, held, tried)
        return _joined(done, self._settle(second, _held_after(done, held), tried))

    def _tried_twice(
        self, work: Work, held: Collection[Run], tried: Collection[str] = ()
    ) -> Applied:
        try:
            return self._carry_out(work, held, tried)
        except Contended:
            # Rolled back whole. The other transaction went on: the second try finds the way free.
            return self._carry_out(work, held, tried)

    def _carry_out(self, work: Work, held: Collection[Run], tried: Collection[str]) -> Applied:
        with self._session.transaction() as connection:
            return work.carry_out(
                self._writer_on(connection),
                held=held,
                tried=tried,
                expects_rows=self.expects_rows,
            )

    def _set_apart(self, work: Work, held: Collection[Run], reason: str) -> Applied:
        """Write the one item that the database refuses, without its data."""
        if work.claims:
            text = f"the database refuses this request's data ({reason})"
            verdict = ClaimVerdict(VerdictKind.REFUSED, work.claims[0], None, text)
            return replace(NOTHING, verdicts=(verdict,))
        if work.own_runs:
            return self._tried_twice(Work(own_runs=[work.own_runs[0].cleaned()]), held)
        if work.told_runs:
            return self._tried_twice(Work(told_runs=[work.told_runs[0].cleaned()]), held)
        if work.finishes:
            return self._finish_without_result(work.finishes[0].cleaned(), held)
        if work.skips:
            return NOTHING  # it goes on, and its claim is refused
        if work.refusals:
            return self._tried_twice(Work(refusals=[work.refusals[0].cleaned()]), held)
        # No run can have such an id or generation: there is nothing to mark or to take over.
        stale = TakeoverResult(TakeoverResultKind.STALE, None)
        taken = {(one.request_id, one.generation): stale for one in work.takeovers}
        return replace(NOTHING, takeovers=taken)

    def _finish_without_result(self, finish: Finish, held: Collection[Run]) -> Applied:
        name = (finish.request_id, finish.generation)
        result = self._tried_twice(Work(finishes=[finish]), held).finished[name]
        with self._session.transaction(read_only=True) as connection:
            rows, _ = self._writer_on(connection).read([finish.request_id])
        # The row was written otherwise than the finish asked: return it.
        told = FinishResult(result.kind, rows.get(finish.request_id))
        return replace(NOTHING, finished={name: told})


def _joined(first: Applied, second: Applied) -> Applied:
    return Applied(
        (*first.verdicts, *second.verdicts),
        first.effects | second.effects,
        {**first.finished, **second.finished},
        (*first.refusals, *second.refusals),
        {**first.takeovers, **second.takeovers},
        (*first.skipped, *second.skipped),
        (*first.restored, *second.restored),
    )


def _held_after(applied: Applied, held: Collection[Run]) -> set[Run]:
    granted = {
        (verdict.row.request_id, verdict.row.generation)
        for verdict in applied.verdicts
        if verdict.kind is VerdictKind.RUN and verdict.row is not None
    }
    return {*held, *granted, *granted_names(applied.takeovers)}
