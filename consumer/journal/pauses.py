"""Which topics are paused for the whole group, since when, why and by whom."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, bindparam, func, literal_column, null, select, update
from sqlalchemy.sql.dml import ReturningInsert

from consumer.journal.actions import ACTIONS, ActionKind, NewAction, note
from consumer.journal.clock import now_ms
from consumer.journal.group_journal import GroupJournal
from consumer.journal.tables import pause
from feedback.sql.inserting import insert_into


class PauseRow(NamedTuple):
    """A topic that the group does not run now.

    Attributes:
        by: a person, or the worker that has stopped it.
    """

    topic: str
    reason: str
    since: int
    by: str


class Pauses(GroupJournal):
    """The pauses of one group; see `GroupJournal`. Each is noted with the actions of people."""

    _shapes = (ACTIONS,)

    def paused(self) -> list[PauseRow]:
        """Return the pauses of now, by topic."""
        with self._session.transaction(read_only=True, alone=True) as connection:
            answers = connection.execute(_PAUSED, {"this_group": self._group}).all()
        return [PauseRow(*answer) for answer in answers]

    def pause(self, topic: str, *, reason: str, by: str) -> bool:
        """Pause a topic; tell whether it was not paused before: else the first reason stands."""
        given = {"this_group": self._group, "this_topic": topic, "why": reason, "whose": by}
        with self._session.deed() as connection:
            is_new = connection.execute(_pause(self._session.dialect), given).scalar() is not None
            if is_new:
                new_action = NewAction(None, None, f"{topic}: {reason}")
                note(connection, self._group, [new_action], ActionKind.PAUSE_TOPIC, by=by)
        return is_new

    def resume(self, topic: str, *, by: str, since: int | None = None) -> PauseRow | None:
        """Let a topic go on; return the pause that has ended, None when there was none.

        Args:
            since: of the pause that is meant; None: whichever it is.
        """
        given = {"this_group": self._group, "this_topic": topic, "whose": by, "of": since}
        with self._session.deed() as connection:
            answer = connection.execute(_RESUME, given).one_or_none()
            if answer is not None:
                new_action = NewAction(None, None, topic)
                note(connection, self._group, [new_action], ActionKind.RESUME_TOPIC, by=by)
        return None if answer is None else PauseRow(*answer)


_COLUMNS = (pause.c.topic, pause.c.reason, pause.c.since, pause.c.by)
_STANDS = (pause.c.group == bindparam("this_group"), pause.c.resumed_at.is_(None))
_PAUSED = select(*_COLUMNS).where(*_STANDS).order_by(pause.c.topic)
_RESUME = (
    update(pause)
    .where(*_STANDS, pause.c.topic == bindparam("this_topic"))
    .where(pause.c.since == func.coalesce(bindparam("of", type_=BigInteger()), pause.c.since))
    .values(resumed_at=now_ms(), resumed_by=bindparam("whose"))
    .returning(*_COLUMNS)
)


@lru_cache
def _pause(dialect: str) -> ReturningInsert[Any]:
    values = {
        "group": bindparam("this_group"),
        "topic": bindparam("this_topic"),
        "since": now_ms(),
        "reason": bindparam("why"),
        "by": bindparam("whose"),
    }
    # The WHERE: see `insert_into`.
    row = select(*values.values()).where(literal_column("1 = 1"))
    made = insert_into(pause, dialect).from_select(list(values), row)
    again = {name: made.excluded[name] for name in ("since", "reason", "by")}
    return made.on_conflict_do_update(
        index_elements=[pause.c.group, pause.c.topic],
        set_={**again, "resumed_at": null(), "resumed_by": null()},
        where=pause.c.resumed_at.is_not(None),
    ).returning(pause.c.topic)
