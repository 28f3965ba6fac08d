"""The requests about which something is still to be done, apart from all that have ended.

On PostgreSQL each index that names a column of a row makes every update of that column write all
indexes of the row anew. So `onceward_request` has none on what changes. Its triggers keep a copy of
those columns for each open request in `onceward_open`, with the indexes of the sweeps. That table
is not logged, so it costs the write-ahead log nothing: half as much is written for each request.

A crash of the server empties it, a failover too, and with it the note that it is complete. Nobody
takes it for complete then: a reader raises `OpenRequestsUnknown`, and a worker looks through all
requests. Worker or server may die at any point: without the note of this very look another one
begins, and a request that is known already is only written once more.

On SQLite an update writes only the indexes that hold the row, so they lie on `onceward_request`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    MetaData,
    Select,
    Table,
    Update,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    select,
    tuple_,
    update,
)

from consumer.journal import clock
from consumer.journal.batch import RUNS
from consumer.journal.clock import now_ms
from consumer.journal.errors import OpenRequestsUnknown
from consumer.journal.history import same_request
from consumer.journal.tables import IS_OPEN, NAME, open_look, request

PAGE_ROWS = 2_000
# Longer than a page; a look that was not seen for so long has died.
GOES_ON_MS = 10_000
# Before every request.
FIRST = ("", "")
_VIEW = Table(
    "onceward_open_request",
    MetaData(),
    *(Column(column.name, column.type, primary_key=column.primary_key) for column in request.c),
)


def open_requests(dialect: str) -> Table:
    """Return the open requests as a table with the columns of `onceward_request`.

    A statement about them has the condition of an index (`consumer.journal.tables`) in its own
    words, and all of its columns from here.
    """
    return request if dialect == "sqlite" else _VIEW


def require_complete(connection: Connection) -> None:
    """Return when all open requests are known, in this transaction.

    Raises:
        OpenRequestsUnknown: the database has crashed since, and no sweep has found them again.
    """
    if not is_complete(connection):
        raise OpenRequestsUnknown


def is_complete(connection: Connection) -> bool:
    """Whether all open requests are known."""
    if connection.dialect.name == "sqlite":
        return True
    return connection.execute(_LOOKS).scalar_one() > 0


def begin_look(connection: Connection, look: str) -> bool:
    """Note that a look begins; whether it does: not beside another one that goes on.

    Two that begin at one moment do no harm.

    Args:
        look: a new random name.
    """
    goes_on = exists().where(open_look.c.seen_at > clock.once() - GOES_ON_MS)
    new = select(bindparam("look", type_=NAME), now_ms(), literal(0)).where(~goes_on)
    columns = ("look", "seen_at", "complete")
    began = insert(open_look).from_select(columns, new).returning(open_look.c.look)
    return connection.execute(began, {"look": look}).scalar() is not None


class Looked(NamedTuple):
    """A page of all requests that was looked through.

    Args:
        found: how many of them are open.
        last: group and id of the last one; None when it was the last page.
    """

    found: int
    last: tuple[str, str] | None


def look_through(connection: Connection, look: str, behind: tuple[str, str]) -> Looked:
    """Look through a page of all requests; the open ones among them are known from then on.

    Args:
        behind: group and id of the last one of the page before; at first `FIRST`.

    Raises:
        OpenRequestsUnknown: the server has crashed since the look began, and forgotten what was
            found.
    """
    _note(connection, look, seen_at=now_ms())
    parameters = {"behind_group": behind[0], "behind_id": behind[1], "most": PAGE_ROWS}
    page = connection.execute(_PAGE, parameters).all()
    names = [(group, request_id, 0) for group, request_id, is_open in page if is_open]
    if names:
        # The trigger copies each row as it is when it is locked, and not as the page saw it.
        connection.execute(_touch(), RUNS.load(connection, names))
    is_last = len(page) < PAGE_ROWS
    return Looked(len(names), None if is_last else (page[-1][0], page[-1][1]))


def end_look(connection: Connection, look: str) -> None:
    """Note that every request was looked through since the look began.

    Raises:
        OpenRequestsUnknown: as for `look_through`.
    """
    _note(connection, look, complete=1)
    connection.execute(delete(open_look).where(open_look.c.look != look))


def _note(connection: Connection, look: str, **values: Any) -> None:
    noted = update(open_look).where(open_look.c.look == look).values(values)
    # A proxy may keep the connection while the server crashes: its note would be gone.
    if connection.execute(noted).rowcount != 1:
        raise OpenRequestsUnknown


def _select_page() -> Select[Any]:
    key = request.c.group, request.c.request_id
    is_open: ColumnElement[bool] = literal_column(f"({IS_OPEN})")
    return (
        select(*key, is_open)
        .where(tuple_(*key) > tuple_(bindparam("behind_group"), bindparam("behind_id")))
        .order_by(*key)
        .limit(bindparam("most"))
    )


_PAGE = _select_page()
_LOOKS = select(func.count()).where(open_look.c.complete == 1)


@lru_cache
def _touch() -> Update:
    batch = RUNS.source("postgresql")
    return update(request).where(same_request(batch)).values(voids=request.c.voids)
