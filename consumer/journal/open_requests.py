"""The requests about which something is still to be done, apart from all that have ended.

On PostgreSQL each index that names a column of a row makes every update of that column write all
indexes of the row anew. So `onceward_request` has none on what changes. Its triggers keep a copy of
those columns for each open request in `onceward_open`, with the indexes of the sweeps. That table
is not logged, so it costs the write-ahead log nothing: half as much is written for each request.

A crash of the server empties it, a failover too, and with it the note that it is complete. Nobody
takes it for complete then: a reader raises `OpenRequestsUnknown`, and a worker looks through all
requests. Worker or server may die at any point: without the note of this very look another one
begins, and a request that is known already is only written once more.

The look reads the table once, in the order of its blocks, whatever the order of the ids. A request
that nobody changes stays in its block. One that is changed may move to a block that was read
already, but then a trigger has copied it. A rewrite of the table (VACUUM FULL) moves rows without a
trigger: a look that was under way then is none.

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
    Text,
    Update,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    select,
    text,
    update,
)

from consumer.journal import clock
from consumer.journal.batch import RUNS
from consumer.journal.clock import now_ms
from consumer.journal.errors import OpenRequestsUnknown
from consumer.journal.history import same_request
from consumer.journal.tables import IS_OPEN, NAME, open_look, request
from feedback.sql.index_hints import indexed_by

PAGE_ROWS = 2_000
# Of 8 kB: a slow disk reads them within a statement's time.
PAGE_BLOCKS = 8_192
# Longer than a page; a look that was not seen for so long has died.
GOES_ON_MS = 10_000
# Block and line before every request.
FIRST = (0, 0)
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


def by_index(wanted: Select[Any], rows: Table, name: str) -> Select[Any]:
    """Return a query of open requests that reads them by one of `PARTIAL_INDEXES`, on SQLite.

    There the planner may take another one, after `ANALYZE` or for the order, and read all requests.
    """
    return indexed_by(wanted, rows, f"onceward_request_{name}")


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


class OpenLook(NamedTuple):
    """A look through all requests.

    Args:
        name: new and random.
        file: the table's file when it began; a rewrite makes another one.
        blocks: of the table when it began; the requests behind them are known by the triggers.
    """

    name: str
    file: int
    blocks: int


def begin_look(connection: Connection, name: str) -> OpenLook | None:
    """Note that a look begins, and return it; None beside another one that goes on.

    Two that begin at one moment do no harm.
    """
    goes_on = exists().where(open_look.c.seen_at > clock.once() - GOES_ON_MS)
    new = select(bindparam("look", type_=NAME), now_ms(), literal(0)).where(~goes_on)
    columns = ("look", "seen_at", "complete")
    began = insert(open_look).from_select(columns, new).returning(open_look.c.look)
    if connection.execute(began, {"look": name}).scalar() is None:
        return None
    file, blocks = connection.execute(_EXTENT).one()
    return OpenLook(name, file, blocks)


class OpenLookPage(NamedTuple):
    """A page of all requests that was looked through.

    Args:
        found: how many open ones were found in it.
        last: block and line where the next one begins; None when it was the last page.
    """

    found: int
    last: tuple[int, int] | None


def look_through(connection: Connection, look: OpenLook, behind: tuple[int, int]) -> OpenLookPage:
    """Look through a page of all requests; the open ones among them are known from then on.

    Args:
        behind: block and line where the page before ended; at first `FIRST`.

    Raises:
        OpenRequestsUnknown: the server has crashed since the look began, and forgotten what was
            found; or the table was rewritten.
    """
    block, line = behind
    until = block + PAGE_BLOCKS
    parameters = {"behind": f"({block},{line})", "until": f"({until},0)", "most": PAGE_ROWS}
    page = connection.execute(_PAGE, parameters).all()
    # The page holds the lock that a rewrite waits for, so it was read in the file that is there.
    _note(connection, look, seen_at=now_ms())
    names = sorted((group, request_id, 0) for group, request_id, _ in page)
    if names:
        # The trigger copies each row as it is when it is locked, and not as the page saw it.
        connection.execute(_touch(), RUNS.load(connection, names))
    if len(page) == PAGE_ROWS:
        block, line = map(int, page[-1][2].strip("()").split(","))
        return OpenLookPage(len(names), (block, line))
    return OpenLookPage(len(names), (until, 0) if until < look.blocks else None)


def end_look(connection: Connection, look: OpenLook) -> None:
    """Note that every request was looked through since the look began.

    Raises:
        OpenRequestsUnknown: as for `look_through`.
    """
    _note(connection, look, complete=1)
    connection.execute(delete(open_look).where(open_look.c.look != look.name))


def _note(connection: Connection, look: OpenLook, **values: Any) -> None:
    is_same = text(f"{_FILE} = :file").bindparams(file=look.file)
    noted = update(open_look).where(open_look.c.look == look.name, is_same).values(values)
    # A proxy may keep the connection while the server crashes: its note would be gone.
    if connection.execute(noted).rowcount != 1:
        raise OpenRequestsUnknown


def _select_page() -> Select[Any]:
    ctid: ColumnElement[str] = literal_column("ctid")
    # Written into the statement: a plan for any place might read the whole table.
    behind, until = (
        literal_column("tid").op("")(bindparam(name, type_=Text(), literal_execute=True))
        for name in ("behind", "until")
    )
    return (
        select(request.c.group, request.c.request_id, literal_column("ctid::text").label("place"))
        .where(ctid > behind, ctid < until, text(f"({IS_OPEN})"))
        .order_by(ctid)
        .limit(bindparam("most"))
    )


_FILE = "pg_relation_filenode('onceward_request')"
_EXTENT = text(
    f"SELECT {_FILE}, pg_relation_size('onceward_request') / current_setting('block_size')::int"
)
_PAGE = _select_page()
_LOOKS = select(func.count()).where(open_look.c.complete == 1)


@lru_cache
def _touch() -> Update:
    batch = RUNS.source("postgresql")
    return update(request).where(same_request(batch)).values(voids=request.c.voids)
