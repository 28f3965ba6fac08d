"""The journal of one worker: everything that its loop writes goes through `apply`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import func, select

from consumer.journal.commits import NOTHING, Commits
from consumer.journal.database_settings import DatabaseSettings, read_standing
from consumer.journal.losses.restoring import disown, find_own
from consumer.journal.records import Applied, Row, Run, VerdictKind
from consumer.journal.schema import check_version, read_journal_id, server_version
from consumer.journal.swept_journal import SweptJournal
from consumer.journal.tables import request
from consumer.journal.work import Work
from feedback.observer import Observer, observed


class Journal(SweptJournal):
    """Stores claims and how they ended; see `GroupJournal`.

    Args:
        observers: hear of each `apply`: whether it carries claims, finishes or effects.
    """

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
        super().__init__(
            url,
            group=group,
            worker_id=worker_id,
            statement_timeout_s=statement_timeout_s,
            outcome_topics=outcome_topics,
        )
        self._observers = observers
        self._commits = Commits(self._session, self._writer_on)

    def apply(
        self, work: Work, *, held: Collection[Run] = (), tried: Collection[str] = ()
    ) -> Applied:
        """Commit all items in one transaction and return the result of each.

        An item that the database refuses because of its data is found by halving, and the rest is
        committed without it. Such a claim is REFUSED; such a finish is written without its result.

        Args:
            held: (request_id, generation) of runs that this worker has in a child or in a waiting
                finish.
            tried: requests whose claims were part of a call of unknown outcome, or whose run was
                granted and never begun: such a claim of its own that is not among `held` is
                granted again (docs: How it works).
        """
        if not len(work):
            return NOTHING
        # Claims and finishes of one turn share a transaction and its time.
        kinds = (("claim", work.claims), ("finish", work.finishes), ("effect", work.effects))
        what = [name for name, those in kinds if those]
        with observed(self._observers, *(what or ["journal"])):
            applied = self._commits.commit(work, held, tried)
        if work.claims:
            known = sum(one.kind is not VerdictKind.RUN for one in applied.verdicts)
            # After a resend of many: one batch of claims is as the one before.
            self._commits.expects_rows = 2 * known > len(work.claims)
        return applied

    def own_claims(self) -> list[Row]:
        """Return the claims that this worker has not finished, as far as the database knows."""
        with self._session.transaction(read_only=True) as connection:
            return find_own(self._writer_on(connection))

    def disown(self, runs: Sequence[Run]) -> None:
        """Leave claims of this worker to a sweep: nobody holds them, or knows how they ended.

        A run that the rollback of its row does not undo may have had its effect.
        """
        with self._session.transaction() as connection:
            disown(self._writer_on(connection), runs)

    def mark_unbegun(self, runs: Sequence[Run]) -> None:
        """Leave claims of this worker to a sweep, as of runs that did not reach their effect.

        Only of runs that certainly never began, and will not.
        """
        self._commits.mark_unbegun(runs)

    def journal_id(self) -> str:
        """Return the random id of this journal, which a group's workers compare.

        Raises:
            JournalVersionError: the journal was never migrated.
        """
        with self._session.transaction(read_only=True) as connection:
            return read_journal_id(connection)

    def require_current(self) -> None:
        """Return when the journal has the tables that this program works with.

        Raises:
            JournalVersionError: it has none, older or newer ones; the text says how to go on.
        """
        with self._session.transaction(read_only=True) as connection:
            check_version(connection)

    def ping(self) -> str:
        """Return the server's name and version."""
        with self._session.transaction(read_only=True) as connection:
            return server_version(connection)

    def standing(self) -> DatabaseSettings | None:
        """Return the settings of the database; None on SQLite."""
        with self._session.transaction(read_only=True) as connection:
            return read_standing(connection)

    def other_groups(self) -> list[str]:
        """Return the groups beside this one that have requests here; each costs one look-up."""
        groups: list[str] = []
        nearest = select(func.min(request.c.group))
        with self._session.transaction(read_only=True) as connection:
            while found := connection.scalar(
                nearest.where(request.c.group > groups[-1]) if groups else nearest
            ):
                groups.append(found)
        return [one for one in groups if one != self._group]
