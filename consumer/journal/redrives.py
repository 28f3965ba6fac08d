"""The redrives of a group: begun, found, taken over, cancelled."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Connection, insert, update

from consumer.journal.actions import ActionKind, Deed, note
from consumer.journal.clock import now_ms
from consumer.journal.group_journal import ActingJournal
from consumer.journal.records import cleaned
from consumer.journal.redrive_row import (
    CANCELLED,
    RUNNING,
    Place,
    Redrive,
    decode,
    encode_spans,
    select_redrives,
)
from consumer.journal.tables import redrive


class Redrives(ActingJournal):
    """The redrives of one group; see `GroupJournal`.

    Args:
        owner: this process, under a name that no other has.
    """

    def __init__(
        self, url: str, *, group: str, owner: str, statement_timeout_s: float = 10.0
    ) -> None:
        super().__init__(url, group=group, statement_timeout_s=statement_timeout_s)
        self.owner = owner

    def begin(
        self,
        redrive_id: str,
        *,
        by: str,
        reason: str | None,
        filter_text: str,
        spans: Mapping[Place, tuple[int, int]],
    ) -> None:
        """Make the row of a redrive that this process begins.

        Raises:
            JournalUnavailable: the database is away.
        """
        values = {
            "group": self._group,
            "redrive_id": redrive_id,
            "by": cleaned(by),
            "reason": None if reason is None else cleaned(reason),
            "started_at": now_ms(),
            "updated_at": now_ms(),
            "state": RUNNING,
            "owner": self.owner,
            "filter": filter_text,
            "spans": encode_spans(spans),
            **dict.fromkeys(("positions", "marks", "unconfirmed"), "[]"),
            "counts": "{}",
        }
        with self._session.transaction() as connection:
            connection.execute(insert(redrive).values(values))

    def find(self, redrive_id: str) -> Redrive | None:
        """Return a redrive; None when there is no such one.

        Raises:
            JournalUnavailable: the database is away.
        """
        with self._session.transaction(read_only=True) as connection:
            answer = connection.execute(
                select_redrives().where(*self.named(redrive_id))
            ).one_or_none()
        return None if answer is None else decode(answer)

    def latest(self, limit: int) -> list[Redrive]:
        """Return the redrives of the group, the latest first.

        Raises:
            JournalUnavailable: the database is away.
        """
        chosen = select_redrives().where(redrive.c.group == self._group)
        ordered = chosen.order_by(redrive.c.started_at.desc(), redrive.c.redrive_id).limit(limit)
        with self._session.transaction(read_only=True) as connection:
            return [decode(answer) for answer in connection.execute(ordered).all()]

    def take(self, stands: Redrive, *, by: str, reason: str | None) -> bool:
        """Make a redrive this process's, if it still stands as it was read, and record by whom."""
        owner = redrive.c.owner
        is_same = owner.is_(None) if stands.owner is None else owner == stands.owner
        as_it_was = (redrive.c.state == stands.state, redrive.c.updated_at == stands.updated_at)
        conditions = (is_same, *as_it_was)
        with self._session.transaction() as connection:
            statement = update(redrive).where(*self.named(stands.redrive_id), *conditions)
            taken = statement.values(state=RUNNING, owner=self.owner, updated_at=now_ms())
            if connection.execute(taken).rowcount != 1:
                return False
            self._note(connection, stands.redrive_id, ActionKind.RESUME, by=by, reason=reason)
            return True

    def cancel(self, redrive_id: str, *, by: str, reason: str | None) -> bool:
        """Cancel a redrive that runs, wherever it does; say whether there was one."""
        running = (*self.named(redrive_id), redrive.c.state == RUNNING)
        with self._session.transaction() as connection:
            cancelled = update(redrive).where(*running).values(state=CANCELLED)
            if connection.execute(cancelled).rowcount != 1:
                return False
            self._note(connection, redrive_id, ActionKind.CANCEL, by=by, reason=reason)
            return True

    def named(self, redrive_id: str) -> tuple[ColumnElement[bool], ...]:
        """Return the conditions that a row is that of a redrive."""
        return redrive.c.group == self._group, redrive.c.redrive_id == redrive_id

    def _note(
        self,
        connection: Connection,
        redrive_id: str,
        kind: ActionKind,
        *,
        by: str,
        reason: str | None,
    ) -> None:
        deed = Deed(None, None, reason)
        note(connection, self._group, [deed], kind, by=by, redrive_id=redrive_id)
