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
from contextlib import AbstractContextManager
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, insert, or_, select, update

from consumer.journal.actions import ActionKind, NewAction, lock_unknown, note
from consumer.journal.claims.finishing import mark_published
from consumer.journal.clock import now_ms
from consumer.journal.errors import Contended
from consumer.journal.group_journal import ActingJournal
from consumer.journal.records import Row, cleaned
from consumer.journal.redrive.redrive_row import (
    CANCELLED,
    DONE,
    RUNNING,
    Redrive,
    RedriveStopped,
    SavedProgress,
    decode_redrive,
    encode_spans,
    select_redrives,
)
from consumer.journal.redrive.redrive_rule import RedriveCandidate, RedriveWish
from consumer.journal.redrive.reopening import RedriveVerdict, close_again, judge_letters, reopen
from consumer.journal.tables import redrive
from feedback.kafka.values import Partition


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
        spans: Mapping[Partition, tuple[int, int]],
    ) -> None:
        """Make the row of a redrive that this process begins."""
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
        with self._session.deed() as connection:
            connection.execute(insert(redrive).values(values))

    def find(self, redrive_id: str) -> Redrive | None:
        """Return a redrive; None when there is no such one."""
        with self._session.transaction(read_only=True) as connection:
            answer = connection.execute(
                select_redrives().where(*self.named(redrive_id))
            ).one_or_none()
        return None if answer is None else decode_redrive(answer)

    def latest(self, limit: int) -> list[Redrive]:
        """Return the redrives of the group, the latest first."""
        chosen = select_redrives().where(redrive.c.group == self._group)
        ordered = chosen.order_by(redrive.c.started_at.desc(), redrive.c.redrive_id).limit(limit)
        with self._session.transaction(read_only=True) as connection:
            return [decode_redrive(answer) for answer in connection.execute(ordered).all()]

    def take(self, stands: Redrive, *, by: str, reason: str | None) -> bool:
        """Make a redrive this process's, if it still stands as it was read, and record by whom."""
        owner = redrive.c.owner
        is_same = owner.is_(None) if stands.owner is None else owner == stands.owner
        as_it_was = (redrive.c.state == stands.state, redrive.c.updated_at == stands.updated_at)
        conditions = (is_same, *as_it_was)
        with self._session.deed() as connection:
            statement = update(redrive).where(*self.named(stands.redrive_id), *conditions)
            taken = statement.values(state=RUNNING, owner=self.owner, updated_at=now_ms())
            if connection.execute(taken).rowcount != 1:
                return False
            self._note(connection, stands.redrive_id, ActionKind.RESUME, by=by, reason=reason)
            return True

    def cancel(
        self, redrive_id: str, *, by: str, reason: str | None, seen: str | None = None
    ) -> bool:
        """Cancel a redrive that runs, wherever it does; say whether there was one.

        Args:
            seen: the process that is meant, empty for none: not another that has gone on with it
                since. None: whichever it is.
        """
        running = [*self.named(redrive_id), redrive.c.state == RUNNING]
        if seen is not None:
            running.append(or_(redrive.c.owner.is_(None), redrive.c.owner == seen))
        with self._session.deed() as connection:
            cancelled = update(redrive).where(*running).values(state=CANCELLED)
            if connection.execute(cancelled).rowcount != 1:
                return False
            self._note(connection, redrive_id, ActionKind.CANCEL, by=by, reason=reason)
            return True

    def note_pause(self, redrive_id: str, *, by: str, reason: str, seen: str) -> bool:
        """Record that a person lets a redrive stop, before it does; see `cancel`."""
        meant = (*self.named(redrive_id), redrive.c.owner == seen)
        with self._session.deed() as connection:
            if connection.execute(select(redrive.c.owner).where(*meant)).one_or_none() is None:
                return False
            self._note(connection, redrive_id, ActionKind.PAUSE, by=by, reason=reason)
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
        new_action = NewAction(None, None, reason)
        note(connection, self._group, [new_action], kind, by=by, redrive_id=redrive_id)


TRIES = 3
OutcomeT = TypeVar("OutcomeT")


class RedriveWork(Redrives):
    """The redrives of a group, one of which is this process's; see `Redrives`."""

    def moment(self) -> int:
        """Return the database's time, between two redrives of letters without a row.

        What another has sent before can be read from now on, and has an earlier time; what it sends
        from now on has no earlier one.
        """

        def work(connection: Connection) -> int:
            lock_unknown(connection, self._group)
            return int(connection.execute(select(now_ms())).scalar_one())

        return self._contending(work, self._session.transaction)

    def judge(
        self, candidates: Sequence[RedriveCandidate], wish: RedriveWish
    ) -> list[RedriveVerdict]:
        """Return the verdicts on letters; nothing is changed."""
        with self._session.transaction(read_only=True) as connection:
            return judge_letters(connection, self._group, candidates, wish, lock=False)

    def reopen(
        self,
        candidates: Sequence[RedriveCandidate],
        wish: RedriveWish,
        *,
        valid_ms: int,
        by: str,
        reason: str | None,
        so_far: SavedProgress,
    ) -> list[RedriveVerdict]:
        """Reopen the letters that may be, and save in the same transaction that they may be unsent.

        Args:
            so_far: the progress before, with these candidates among those that may be unsent.

        Raises:
            RedriveStopped: it is not this process's any more; nothing was changed.
            JournalUnavailable: the outcome is unknown; a resume finds it out.
            JournalMoved: nothing was changed; a resume looks at the database that is named now.
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

        return self._contending(work, self._session.deed)

    def close_again(
        self, redrive_id: str, names: Collection[tuple[str, int | None]], *, by: str, reason: str
    ) -> list[Row]:
        """Take reopenings back that Kafka takes no record for; return the rows."""
        given = {"redrive_id": redrive_id, "by": by, "reason": reason}
        return self._contending(
            lambda connection: close_again(connection, self._group, names, **given),
            self._session.deed,
        )

    def save(self, redrive_id: str, so_far: SavedProgress) -> None:
        """Note how far it is.

        Raises:
            RedriveStopped: it is not this process's any more.
            JournalUnavailable: the outcome is unknown; a resume finds it out.
        """

        def work(connection: Connection) -> None:
            self._write(connection, redrive_id, so_far.values())
            if so_far.published:
                mark_published(connection, self._group, so_far.published)

        self._contending(work, self._session.transaction)

    def leave(self, redrive_id: str, *, is_done: bool, filter_text: str | None = None) -> None:
        """Give the redrive back: done, or to be resumed.

        Args:
            filter_text: replaces that of the beginning.

        Raises:
            RedriveStopped: it is not this process's any more.
            JournalUnavailable: it seems to be at work for a while.
        """
        values = {"owner": None, **({"state": DONE} if is_done else {})}
        values |= {} if filter_text is None else {"filter": filter_text}
        with self._session.deed() as connection:
            self._write(connection, redrive_id, values)

    def release(self, redrive_id: str) -> None:
        """Note that this process, which lives on, has nothing of it under way any more."""
        mine = (*self.named(redrive_id), redrive.c.owner == self.owner)
        with self._session.transaction() as connection:
            connection.execute(update(redrive).where(*mine).values(owner=None))

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

    def _contending(
        self,
        work: Callable[[Connection], OutcomeT],
        begun: Callable[[], AbstractContextManager[Connection]],
    ) -> OutcomeT:
        """Do work in a transaction, again where another one was in its way."""
        for _ in range(TRIES - 1):
            try:
                with begun() as connection:
                    return work(connection)
            except Contended:
                continue  # rolled back whole
        with begun() as connection:
            return work(connection)
