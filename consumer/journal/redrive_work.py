"""A redrive at work: the requests it reopens, and its position, in one row of the journal.

By this row a redrive that was killed goes on where it was. `positions` are the offsets up to which
all letters are done. `unconfirmed` names the requests behind them that were reopened, and `marks`
the ends of their topics before the first of them was sent. Requests in Kafka behind the marks were
sent, the rest of `unconfirmed` was not. It is written in the transaction that reopens, so that
nothing is ever reopened without being named there. One batch may be sent while the next is
reopened, so the names of two batches stand there.

`owner` is who goes on with it: each of its transactions checks that, so that one which was
cancelled, or taken over by another process, stops before it reopens anything more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection, update

from consumer.journal.clock import now_ms
from consumer.journal.errors import Contended
from consumer.journal.finishing import mark_published
from consumer.journal.records import Row
from consumer.journal.redrive_row import DONE, RUNNING, RedriveStopped, SoFar
from consumer.journal.redrive_rule import Candidate, Wish
from consumer.journal.redrives import Redrives
from consumer.journal.reopening import RedriveVerdict, close_again, judge, reopen
from consumer.journal.tables import redrive

TRIES = 3
Outcome = TypeVar("Outcome")


class RedriveWork(Redrives):
    """The redrives of a group, one of which is this process's; see `Redrives`."""

    def judge(self, candidates: Sequence[Candidate], wish: Wish) -> list[RedriveVerdict]:
        """Return the verdicts on letters; nothing is changed.

        Raises:
            JournalUnavailable: the database is away.
        """
        with self._session.transaction(read_only=True) as connection:
            return judge(connection, self._group, candidates, wish, lock=False)

    def reopen(
        self,
        candidates: Sequence[Candidate],
        wish: Wish,
        *,
        valid_ms: int,
        by: str,
        reason: str | None,
        so_far: SoFar,
    ) -> list[RedriveVerdict]:
        """Reopen the letters that may be, and save in the same transaction that they may be unsent.

        Args:
            so_far: the progress before, with these candidates among those that may be unsent.

        Raises:
            RedriveStopped: it is not this process's any more; nothing was changed.
            JournalUnavailable: the outcome is unknown; a resume finds it out.
        """

        def work(connection: Connection) -> list[RedriveVerdict]:
            self._write(connection, wish.redrive_id, so_far.values())
            judged = reopen(
                connection,
                self._group,
                candidates,
                wish,
                valid_ms=valid_ms,
                by=by,
                reason=reason,
            )
            if so_far.published:
                mark_published(connection, self._group, so_far.published)
            return judged

        return self._contending(work)

    def close_again(
        self, redrive_id: str, names: Collection[tuple[str, int | None]], *, by: str, reason: str
    ) -> list[Row]:
        """Take reopenings back that Kafka takes no record for; return the rows.

        Raises:
            JournalUnavailable: the outcome is unknown.
        """
        given = {"redrive_id": redrive_id, "by": by, "reason": reason}
        return self._contending(
            lambda connection: close_again(connection, self._group, names, **given)
        )

    def save(self, redrive_id: str, so_far: SoFar) -> None:
        """Note how far it is.

        Raises:
            RedriveStopped: it is not this process's any more.
            JournalUnavailable: the outcome is unknown; a resume finds it out.
        """

        def work(connection: Connection) -> None:
            self._write(connection, redrive_id, so_far.values())
            if so_far.published:
                mark_published(connection, self._group, so_far.published)

        self._contending(work)

    def leave(self, redrive_id: str, *, is_done: bool) -> None:
        """Give the redrive back: done, or to be resumed.

        Raises:
            RedriveStopped: it is not this process's any more.
            JournalUnavailable: it seems to be at work for a while.
        """
        values = {"owner": None, **({"state": DONE} if is_done else {})}
        with self._session.transaction() as connection:
            self._write(connection, redrive_id, values)

    def _write(
        self, connection: Connection, redrive_id: str, values: Mapping[str, str | None]
    ) -> None:
        mine = (redrive.c.owner == self.owner, redrive.c.state == RUNNING)
        statement = update(redrive).where(*self.named(redrive_id), *mine)
        changed = connection.execute(statement.values(updated_at=now_ms(), **values))
        if changed.rowcount != 1:
            raise RedriveStopped(
                f"redrive {redrive_id} was cancelled, or goes on in another process: "
                "`onceward-dlq redrives` says which"
            )

    def _contending(self, work: Callable[[Connection], Outcome]) -> Outcome:
        """Do work in a transaction, again where another one was in its way."""
        for _ in range(TRIES - 1):
            try:
                with self._session.transaction() as connection:
                    return work(connection)
            except Contended:
                continue  # rolled back whole
        with self._session.transaction() as connection:
            return work(connection)
