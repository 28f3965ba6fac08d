"""A redrive at work: what it reopens, and how far it is, in one row of the journal.

The row is what makes a redrive that was killed go on where it was. `positions` say up to where all
letters are done; `unconfirmed` names the requests behind them that were reopened, and `marks` the
ends of their topics before the first of them was sent. What is in Kafka behind the marks was sent,
the rest of `unconfirmed` was not. It is written in the transaction that reopens, so that nothing is
ever reopened without being named there.

`owner` is who goes on with it: each of its transactions checks that, so that one which was
cancelled, or taken over by another process, stops before it reopens anything more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection, update

from consumer.journal.clock import now_ms
from consumer.journal.errors import Contended
from consumer.journal.finishing import mark_published
from consumer.journal.records import Published, Row
from consumer.journal.redrive_row import (
    DONE,
    RUNNING,
    Place,
    RedriveStopped,
    encode_counts,
    encode_offsets,
)
from consumer.journal.redrive_rule import Candidate, Wish
from consumer.journal.redrives import Redrives
from consumer.journal.reopening import Judged, close_again, judge, reopen
from consumer.journal.tables import redrive

TRIES = 3
Outcome = TypeVar("Outcome")


class RedriveWork(Redrives):
    """The redrives of a group, one of which is this process's; see `Redrives`."""

    def judge(self, candidates: Sequence[Candidate], wish: Wish) -> list[Judged]:
        """Return what would become of letters; nothing is changed.

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
        marks: Mapping[Place, int],
        unconfirmed: Collection[str],
    ) -> list[Judged]:
        """Reopen what may be reopened, and say in the same transaction that it may be unsent.

        Args:
            unconfirmed: all that may be reopened and unsent, once this is done.

        Raises:
            RedriveStopped: it is not this process's any more; nothing was changed.
            JournalUnavailable: the outcome is unknown; a resume finds it out.
        """

        def work(connection: Connection) -> list[Judged]:
            values = {
                "marks": encode_offsets(marks),
                "unconfirmed": json.dumps(sorted(unconfirmed)),
            }
            self._write(connection, wish.redrive_id, values)
            return reopen(
                connection,
                self._group,
                candidates,
                wish,
                valid_ms=valid_ms,
                by=by,
                reason=reason,
            )

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

    def save(
        self,
        redrive_id: str,
        *,
        positions: Mapping[Place, int],
        marks: Mapping[Place, int],
        unconfirmed: Collection[str],
        counts: Mapping[str, int],
        named: Mapping[str, str],
        published: Sequence[Published],
    ) -> None:
        """Note that everything up to these positions is done.

        Args:
            named: what became of requests that were asked for by their id.
            published: reopened rows that Redis was told of.

        Raises:
            RedriveStopped: it is not this process's any more.
            JournalUnavailable: the outcome is unknown; a resume finds it out.
        """
        values = {
            "positions": encode_offsets(positions),
            "marks": encode_offsets(marks),
            "unconfirmed": json.dumps(sorted(unconfirmed)),
            "counts": encode_counts(counts, named),
        }

        def work(connection: Connection) -> None:
            self._write(connection, redrive_id, values)
            if published:
                mark_published(connection, self._group, published)

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
