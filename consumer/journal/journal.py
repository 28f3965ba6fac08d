"""The journal of one worker: everything that its loop writes goes through `apply`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from consumer.journal import dead_claims
from consumer.journal.batch import SHAPES
from consumer.journal.catching_up import catch_up
from consumer.journal.dead_claims import Unhandled, find_unhandled
from consumer.journal.doubts import DoubtCount, count_doubts
from consumer.journal.errors import Contended, DataRefused
from consumer.journal.far_leases import FarLease, end_leases, find_far_leases
from consumer.journal.gone_owners import GoneOwners
from consumer.journal.group_journal import GroupJournal
from consumer.journal.history import read
from consumer.journal.pacing import EVER_MS
from consumer.journal.pruning import ALL_LETTERED, Lettered, PrunedRows, prune
from consumer.journal.records import (
    Applied,
    Claim,
    ClaimVerdict,
    DeadEnd,
    EffectMark,
    Finish,
    FinishResult,
    Overdue,
    OwnRun,
    Published,
    Refusal,
    Row,
    Skip,
    Takeover,
    TakeoverResult,
    TakeoverResultKind,
    VerdictKind,
)
from consumer.journal.restoring import disown, find_own
from consumer.journal.retrying import FROM_THE_OLDEST, DueCursor, end_retries, find_overdue
from consumer.journal.schema import check_version, read_journal_id, server_version
from consumer.journal.standing import DatabaseSettings, read_standing
from consumer.journal.sweep import end_dead, take_turn, unpublished
from consumer.journal.takeover import granted_names
from consumer.journal.told_rule import ToldRun
from consumer.journal.work import Work
from feedback.logs import EventLog
from feedback.observer import Observer, observed

log = EventLog("onceward.journal")

Name = tuple[str, int]

# PostgreSQL has room for 64 locks of each of its connections, and a worker has several of these.
KEYS_AT_ONCE = 256


class Journal(GroupJournal):
    """Stores claims and how they ended; see `GroupJournal`.

    Args:
        worker_id: who claims; one for the life of a worker.
        outcome_topics: those whose requests wait for the record of their outcome once they have
            ended, see `consumer.journal.outcomes`.
        observers: hear of transactions that carry claims or finishes.
    """

    _shapes = SHAPES

    def __init__(
        self,
        url: str,
        *,
        group: str,
        worker_id: str,
        statement_timeout_s: float = 10.0,
        outcome_topics: Collection[str] = (),
        observers: Sequence[Observer] = (),
    ) -> None:
        super().__init__(url, group=group, statement_timeout_s=statement_timeout_s)
        self._observers = observers
        self._outcome_topics = outcome_topics
        self._worker_id = worker_id
        self._gone: dict[frozenset[str], GoneOwners] = {}
        # After a resend of many: one batch of claims is as the one before.
        self._expects_rows = False

    def apply(
        self,
        *,
        claims: Sequence[Claim] = (),
        refusals: Sequence[Refusal] = (),
        skips: Sequence[Skip] = (),
        effects: Sequence[EffectMark] = (),
        takeovers: Sequence[Takeover] = (),
        finishes: Sequence[Finish] = (),
        published: Sequence[Published] = (),
        own_runs: Sequence[OwnRun] = (),
        told_runs: Sequence[ToldRun] = (),
        held: Collection[Name] = (),
        tried: Collection[str] = (),
    ) -> Applied:
        """Commit all items in one transaction and return the result of each.

        The order is: own runs, told runs, finishes, effects, takeovers, published, refusals, skips,
        claims. An item that the database refuses because of its data is found by halving, and the
        rest is committed without it. Such a claim is REFUSED; such a finish is written without its
        result.

        Args:
            own_runs: the runs of this worker, as it knows them; a run or an end that the database
                has lost is written again.
            told_runs: the latest runs of these requests by their statuses, read before this call; a
                row that is behind them catches up.
            held: (request_id, generation) of runs that this worker has in a child or in a waiting
                finish.
            tried: requests whose claims were part of a call of unknown outcome, or whose run was
                granted and never begun: such a claim of its own that is not among `held` is
                granted again (contract, section 5).

        Raises:
            JournalUnavailable: the outcome is unknown; the same call may be repeated.
            JournalVersionError: the journal's tables are missing.
        """
        work = Work(
            own_runs=own_runs,
            told_runs=told_runs,
            finishes=finishes,
            effects=effects,
            takeovers=takeovers,
            published=published,
            refusals=refusals,
            skips=skips,
            claims=claims,
        )
        if not len(work):
            return _NOTHING
        # Claims and finishes of one turn share a transaction and its time.
        what = [name for name, those in (("claim", claims), ("finish", finishes)) if those]
        with observed(self._observers, *what):
            applied = self._in_parts(work, held, tried)
        if claims:
            known = sum(one.kind is not VerdictKind.RUN for one in applied.verdicts)
            self._expects_rows = 2 * known > len(claims)
        return applied

    def own_claims(self) -> list[Row]:
        """Return the claims that this worker has not finished, as far as the database knows.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return find_own(connection, self._group, worker_id=self._worker_id)

    def disown(self, runs: Sequence[Name]) -> None:
        """Leave claims of this worker to a sweep: nobody holds them, or knows how they ended.

        A run that the rollback of its row does not undo may have had its effect.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction() as connection:
            disown(connection, self._group, runs, worker_id=self._worker_id)

    def rows(self, request_ids: Collection[str]) -> list[Row]:
        """Return the rows of those requests that have one.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return [*read(connection, self._group, request_ids)[0].values()]

    def catch_up(self, runs: Sequence[ToldRun]) -> list[Row]:
        """Bring rows forward that are behind their statuses; return them.

        Claims of workers without a live lease as well: the status is later than they are. A run
        that the database refuses hinders no other.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        try:
            return self._catch_up(runs)
        except DataRefused as refused:
            if len(runs) > 1:
                half = len(runs) // 2
                return [*self.catch_up(runs[:half]), *self.catch_up(runs[half:])]
            bare = runs[0].cleaned()
            if bare != runs[0]:
                return self.catch_up([bare])
            log.error("run.refused", request_id=bare.request_id, reason=refused.reason)
            return []

    def _catch_up(self, runs: Sequence[ToldRun]) -> list[Row]:
        with self._session.transaction() as connection:
            return catch_up(
                connection,
                self._group,
                self._worker_id,
                runs,
                outcome_topics=self._outcome_topics,
                may_overwrite_claims=True,
            )

    def sweep_is_due(self, every_ms: int) -> bool:
        """Whether this worker is the one to sweep now: one of the group is, each `every_ms`.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction() as connection:
            return take_turn(connection, f"sweep:{self._group}", every_ms)

    def dead_claims(
        self, topics: Collection[str], limit: int, *, after: tuple[str, str] = dead_claims.FIRST
    ) -> list[Row]:
        """Return claims on these topics whose owner has no live lease; nothing is changed.

        With this worker's own lease over there are none: the outage that kept it from renewing may
        have kept all others from it, and their claims are alive.

        Args:
            topics: those that this worker has handlers for, so that it knows their policy.
            limit: the most rows to return.
            after: owner and request of the last one of the page before.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return dead_claims.find(
                connection,
                self._group,
                topics=topics,
                limit=limit,
                worker_id=self._worker_id,
                gone=self._gone.setdefault(frozenset(topics), GoneOwners()),
                after=after,
            )

    def unhandled(self, topics: Collection[str], limit: int, late_ms: int) -> list[Unhandled]:
        """Return claims of dead workers and retries on any other topic than these.

        None with this worker's own lease over, as for `dead_claims`.

        Args:
            limit: the most rows to return.
            late_ms: how long after its deadline it is late.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return find_unhandled(
                connection,
                self._group,
                topics=topics,
                limit=limit,
                late_ms=late_ms,
                worker_id=self._worker_id,
            )

    def far_leases(self, ahead_ms: int) -> list[FarLease]:
        """Return the group's leases that end more than `ahead_ms` from now.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return find_far_leases(connection, self._group, ahead_ms=ahead_ms)

    def end_leases(self, leases: Sequence[FarLease]) -> int:
        """End leases that are still as they were seen; return how many were ended.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction() as connection:
            return end_leases(connection, self._group, leases)

    def end_dead_claims(self, ends: Sequence[DeadEnd]) -> list[Row]:
        """End claims of dead workers; return the rows of those that still were theirs.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction() as connection:
            return end_dead(connection, self._group, ends, worker_id=self._worker_id)

    def unpublished(
        self,
        limit: int,
        older_than_ms: int,
        *,
        within_ms: int = EVER_MS,
        after: tuple[int, str] = (0, ""),
    ) -> list[Row]:
        """Return rows whose state no status was confirmed for, the oldest first.

        Args:
            limit: the most rows to return.
            older_than_ms: how long ago, by the database's clock, they reached that state.
            within_ms: how long ago at most.
            after: `finished_at` and id of the last of the page before.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return unpublished(connection, self._group, limit, older_than_ms, within_ms, after)

    def overdue_retries(
        self,
        topics: Collection[str],
        limit: int,
        older_than_ms: int,
        *,
        cursor: DueCursor = FROM_THE_OLDEST,
        within_ms: int = EVER_MS,
    ) -> list[Overdue]:
        """Return requests on these topics whose next run was due so long ago, the oldest first.

        Args:
            limit: the most to return.
            cursor: behind which to begin.
            within_ms: how long ago it was due at most.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return find_overdue(
                connection,
                self._group,
                topics=topics,
                limit=limit,
                older_than_ms=older_than_ms,
                cursor=cursor,
                within_ms=within_ms,
            )

    def end_retries(self, rows: Sequence[Row]) -> list[Row]:
        """End retries that will have no next run; return the rows as they are now.

        Past its deadline it is EXPIRED; before it, its payload must be gone.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction() as connection:
            return end_retries(connection, self._group, rows, worker_id=self._worker_id)

    def prune(
        self, retention_ms: int, limit: int, *, lettered: Lettered = ALL_LETTERED
    ) -> PrunedRows:
        """Forget requests that ended, and whose deadline was over, longer ago than this.

        Args:
            retention_ms: how long they are kept after the later of the two.
            limit: the most requests to delete in this call; call again while it deletes as many.
            lettered: whose failures are kept until their dead letter is written.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction() as connection:
            return prune(
                connection,
                self._group,
                retention_ms=retention_ms,
                limit=limit,
                lettered=lettered,
            )

    def doubts(self, every_ms: int) -> list[DoubtCount] | None:
        """Count the group's open doubts by topic; None where that is not this worker's turn.

        Args:
            every_ms: how often one of the group's workers counts.

        Raises:
            JournalUnavailable: as for `apply`; after a turn that was taken, nobody counts in it.
        """
        with self._session.transaction() as connection:
            if not take_turn(connection, f"doubts:{self._group}", every_ms):
                return None
        with self._session.transaction(read_only=True) as connection:
            return count_doubts(connection, self._group)

    def journal_id(self) -> str:
        """Return the random id of this journal, which a group's workers compare.

        Raises:
            JournalUnavailable: as for `apply`.
            JournalVersionError: the journal was never migrated.
        """
        with self._session.transaction(read_only=True) as connection:
            return read_journal_id(connection)

    def require_current(self) -> None:
        """Return when the journal has the tables that this program works with.

        Raises:
            JournalVersionError: it has none, older or newer ones; the text says how to go on.
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            check_version(connection)

    def ping(self) -> str:
        """Return the server's name and version.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return server_version(connection)

    def standing(self) -> DatabaseSettings | None:
        """Return the settings of the database; None on SQLite.

        Raises:
            JournalUnavailable: as for `apply`.
        """
        with self._session.transaction(read_only=True) as connection:
            return read_standing(connection)

    def _in_parts(self, work: Work, held: Collection[Name], tried: Collection[str]) -> Applied:
        """Commit claims of very many keys one part after the other: each key is a lock."""
        first, rest = work.cut(KEYS_AT_ONCE)
        done = self._settle(first, held, tried)
        if rest is None:
            return done
        mine = {*held, *_granted(done), *granted_names(done.takeovers)}
        return _joined(done, self._in_parts(rest, mine, tried))

    def _settle(self, work: Work, held: Collection[Name], tried: Collection[str]) -> Applied:
        try:
            return self._commit(work, held, tried)
        except DataRefused as refused:
            if len(work) == 1:
                return self._set_apart(work, held, refused.reason)
        first, second = work.halves()
        done = self._settle(first, held, tried)
        mine = {*held, *_granted(done), *granted_names(done.takeovers)}
        return _joined(done, self._settle(second, mine, tried))

    def _commit(self, work: Work, held: Collection[Name], tried: Collection[str] = ()) -> Applied:
        try:
            return self._carry_out(work, held, tried)
        except Contended:
            # Rolled back whole. The other transaction went on: the second try finds the way free.
            return self._carry_out(work, held, tried)

    def _carry_out(self, work: Work, held: Collection[Name], tried: Collection[str]) -> Applied:
        with self._session.transaction() as connection:
            return work.carry_out(
                connection,
                group=self._group,
                worker_id=self._worker_id,
                held=held,
                tried=tried,
                outcome_topics=self._outcome_topics,
                expects_rows=self._expects_rows,
            )

    def _set_apart(self, work: Work, held: Collection[Name], reason: str) -> Applied:
        """Write the one item that the database refuses, without its data."""
        if work.claims:
            text = f"the database refuses this request's data ({reason})"
            verdict = ClaimVerdict(VerdictKind.REFUSED, work.claims[0], None, text)
            return replace(_NOTHING, verdicts=(verdict,))
        if work.own_runs:
            return self._commit(Work(own_runs=[work.own_runs[0].cleaned()]), held)
        if work.told_runs:
            return self._commit(Work(told_runs=[work.told_runs[0].cleaned()]), held)
        if work.finishes:
            return self._finish_without_result(work.finishes[0].cleaned(), held)
        if work.skips:
            return _NOTHING  # it goes on, and its claim is refused
        if work.refusals:
            return self._commit(Work(refusals=[work.refusals[0].cleaned()]), held)
        # No run can have such an id or generation: there is nothing to mark or to take over.
        stale = TakeoverResult(TakeoverResultKind.STALE, None)
        taken = {(one.request_id, one.generation): stale for one in work.takeovers}
        return replace(_NOTHING, takeovers=taken)

    def _finish_without_result(self, finish: Finish, held: Collection[Name]) -> Applied:
        name = (finish.request_id, finish.generation)
        result = self._commit(Work(finishes=[finish]), held).finished[name]
        with self._session.transaction(read_only=True) as connection:
            rows, _ = read(connection, self._group, [finish.request_id])
        # The row was written otherwise than the finish asked: return it.
        told = FinishResult(result.kind, rows.get(finish.request_id))
        return replace(_NOTHING, finished={name: told})


_NOTHING = Applied((), frozenset(), {}, ())


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


def _granted(applied: Applied) -> set[Name]:
    return {
        (verdict.row.request_id, verdict.row.generation)
        for verdict in applied.verdicts
        if verdict.kind is VerdictKind.RUN and verdict.row is not None
    }
