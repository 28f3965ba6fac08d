"""Searching requests and actions for a person, newest first. Read only.

No index serves each question, so a search looks at a bounded number of rows, in the order of their
deadlines, and says where it stopped: the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, or_, select, tuple_

from consumer.journal.actions import Action
from consumer.journal.group_journal import GroupJournal
from consumer.journal.history import row_columns
from consumer.journal.records import Row
from consumer.journal.tables import action, request

# Measured on a PostgreSQL with 1,000,000 rows: 20 ms.
LOOKED_AT = 20_000
# Behind all printable ASCII, of which ids are made.
_BEHIND = "\x7f"
_LAST = (2**63 - 1, _BEHIND)

# A time and an id: the next look goes on behind them.
RowCursor = tuple[int, str]


@dataclass(frozen=True, slots=True)
class RequestQuery:
    """Conditions that a row must meet, all of them; an empty one takes each.

    Attributes:
        request_id: the beginning of its id.
        since: when it was claimed, or ended where it never was: not before.
        until: not from then on.
    """

    request_id: str = ""
    key: str = ""
    topic: str = ""
    state: str = ""
    code: str = ""
    since: int | None = None
    until: int | None = None


class FoundRequests(NamedTuple):
    """The rows of one look.

    Args:
        behind: deadline and id behind which the next look goes on; None at the end.
    """

    rows: list[Row]
    behind: RowCursor | None


class FoundActions(NamedTuple):
    """Actions, the latest first, and the number before which the next ones lie; None at the end."""

    actions: list[Action]
    before: int | None


class JournalSearch(GroupJournal):
    """Searches the journal of one group; see `GroupJournal`."""

    def requests(
        self,
        query: RequestQuery,
        *,
        most: int,
        behind: RowCursor | None = None,
        looks_at: int = LOOKED_AT,
    ) -> FoundRequests:
        """Return rows that match, those with the latest deadlines first.

        Args:
            most: so many at most.
            behind: of the look before.
            looks_at: so many rows at most, matching or not.
        """
        deadline_at, request_id = behind or _LAST
        given = {"group": self._group, "deadline_at": deadline_at, "request_id": request_id}
        given |= {"looks_at": looks_at}
        looked = _looked(query.request_id != "")
        if query.request_id:
            given |= {"first": query.request_id, "last": query.request_id + _BEHIND}
        columns = looked.selected_columns
        with self._session.transaction(read_only=True) as connection:
            inner = looked.subquery("looked")
            found = (
                select(inner)
                .where(*_conditions(inner.c, query))
                .order_by(inner.c.deadline_at.desc(), inner.c.request_id.desc())
                .limit(most)
            )
            rows = [Row(*one) for one in connection.execute(found, given)]
            if len(rows) == most:
                return FoundRequests(rows, (rows[-1].deadline_at, rows[-1].request_id))
            ends = looked.with_only_columns(columns.deadline_at, columns.request_id)
            last = connection.execute(ends.limit(1).offset(looks_at - 1), given).one_or_none()
        return FoundRequests(rows, None if last is None else (last[0], last[1]))

    def actions(self, *, most: int, before: int | None = None) -> FoundActions:
        """Return the latest actions of people on requests and redrives.

        Args:
            before: of the look before.
        """
        given = {"group": self._group, "before": before or _LAST[0], "most": most}
        with self._session.transaction(read_only=True) as connection:
            found: Sequence[Any] = connection.execute(_ACTIONS, given).all()
        return FoundActions(
            [Action(*one[1:]) for one in found], found[-1][0] if len(found) == most else None
        )


@lru_cache
def _looked(is_by_id: bool) -> Select[Any]:
    place = tuple_(request.c.deadline_at, request.c.request_id)
    conditions: list[ColumnElement[bool]] = [
        request.c.group == bindparam("group"),
        # Alone it is the condition of the index.
        request.c.deadline_at <= bindparam("deadline_at"),
        place < tuple_(bindparam("deadline_at"), bindparam("request_id")),
    ]
    if is_by_id:
        conditions += [
            request.c.request_id >= bindparam("first"),
            request.c.request_id < bindparam("last"),
        ]
    return (
        select(*row_columns(request))
        .where(*conditions)
        .order_by(request.c.deadline_at.desc(), request.c.request_id.desc())
        .limit(bindparam("looks_at"))
    )


def _conditions(columns: Any, query: RequestQuery) -> list[ColumnElement[bool]]:
    at = func.coalesce(columns.claimed_at, columns.finished_at)
    asked = [
        (query.topic, columns.topic == query.topic),
        (query.state, columns.state == query.state),
        (query.code, columns.code == query.code),
        (query.key, columns.message_key == query.key.encode("utf-8", "surrogateescape")),
        (query.since is not None, or_(at.is_(None), at >= (query.since or 0))),
        (query.until is not None, at < (query.until or 0)),
    ]
    return [and_(condition) for is_asked, condition in asked if is_asked]


_ACTIONS = (
    select(action.c.id, *(action.c[name] for name in Action._fields))
    .where(action.c.group == bindparam("group"), action.c.id < bindparam("before"))
    .order_by(action.c.id.desc())
    .limit(bindparam("most"))
)
