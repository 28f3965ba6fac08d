"""The registry's writes about many requests at once: each a single statement.

psycopg sends `executemany` as a pipeline. A registry that is stopped in the middle of one leaves
its server session `active` and waiting for the rest, which neither `statement_timeout` nor
`idle_in_transaction_session_timeout` ends: its locks would stay for as long as it stands still,
and no other registry could take the partition. A single statement has no middle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    FromClause,
    Insert,
    Integer,
    Table,
    Text,
    Update,
    and_,
    delete,
    insert,
    select,
    true,
    tuple_,
    update,
)

from consumer.features.waits.registry.wait_rows import ExpiryRow, UnfinishedRow
from consumer.journal.batch import BatchShape, Columns
from consumer.journal.tables import BIGINT
from consumer.journal.wait_tables import expiry, wait
from feedback.kafka.values import Partition
from feedback.sql.inserting import insert_into

_TEXT = Text()
_REQUEST: Columns = (
    ("group", _TEXT),
    ("wait_topic", _TEXT),
    ("partition", Integer()),
    ("request_id", _TEXT),
)
_WAIT: Columns = (
    *_REQUEST,
    ("offset", BIGINT),
    ("expires_at", BIGINT),
    ("holder", _TEXT),
    ("generation", BIGINT),
)
_UNFINISHED = BatchShape("unfinished", (*_WAIT, ("written_at", BIGINT)))
_EXPIRY = BatchShape(
    "expiry",
    (
        *_WAIT,
        ("begun_at", BIGINT),
        ("letter_partition", Integer()),
        ("letter_mark", BIGINT),
        ("ended_offset", BIGINT),
    ),
)
_END = BatchShape("wait_end", (*_REQUEST, ("ended_offset", BIGINT)))
BATCHES = (_UNFINISHED, _EXPIRY, _END)

# Of requests: the name, and the offset before which a record of it is ended.
EndedOffsets = Iterable[tuple[str, int]]


def write_waits(
    connection: Connection, group: str, place: Partition, rows: Sequence[UnfinishedRow]
) -> None:
    """Write the latest wait record of each request; an older one never replaces a newer."""
    _execute(connection, _UNFINISHED, group, place, rows, _upsert_waits)


def delete_waits(connection: Connection, group: str, place: Partition, ends: EndedOffsets) -> None:
    """Delete the requests whose record lies before the offset given with each."""
    _execute(connection, _END, group, place, ends, _delete_waits)


def write_expiries(
    connection: Connection, group: str, place: Partition, rows: Sequence[ExpiryRow]
) -> None:
    """Write requests that are on their way to the dead letters."""
    _execute(connection, _EXPIRY, group, place, rows, _insert_expiries)


def end_expiries(connection: Connection, group: str, place: Partition, ends: EndedOffsets) -> None:
    """Note the tombstone of each of these requests that is on its way to the dead letters."""
    _execute(connection, _END, group, place, ends, _end_expiries)


def delete_expiries(
    connection: Connection, group: str, place: Partition, request_ids: Iterable[str]
) -> None:
    """Forget expiries that are done."""
    ends = ((request_id, 0) for request_id in request_ids)
    _execute(connection, _END, group, place, ends, _delete_expiries)


def _execute(
    connection: Connection,
    shape: BatchShape,
    group: str,
    place: Partition,
    rows: Iterable[tuple[Any, ...]],
    statement: Callable[[str], Insert | Update | Delete],
) -> None:
    batch = [(group, *place, *row) for row in rows]
    if batch:
        given = shape.load(connection, batch)
        connection.execute(statement(connection.dialect.name), given)


def _names(source: FromClause) -> list[ColumnElement[Any]]:
    return [source.c[name] for name, _ in _REQUEST]


def _is_same(table: Table, source: FromClause) -> ColumnElement[bool]:
    return and_(*(table.c[name] == source.c[name] for name, _ in _REQUEST))


@lru_cache
def _upsert_waits(dialect: str) -> Insert:
    source = _UNFINISHED.source(dialect)
    columns = [name for name, _ in _UNFINISHED.columns]
    # The WHERE: see `insert_into`.
    rows = select(*(source.c[name] for name in columns)).where(true())
    made = insert_into(wait, dialect).from_select(columns, rows)
    key = [name for name, _ in _REQUEST]
    return made.on_conflict_do_update(
        index_elements=key,
        set_={name: made.excluded[name] for name in columns if name not in key},
        where=wait.c.offset < made.excluded.offset,
    )


@lru_cache
def _delete_waits(dialect: str) -> Delete:
    source = _END.source(dialect)
    old = wait.alias("old")
    is_before = and_(
        *(old.c[name] == source.c[name] for name, _ in _REQUEST),
        old.c.offset < source.c.ended_offset,
    )
    found = select(*_names(source)).join(old, is_before)
    return delete(wait).where(tuple_(*(wait.c[name] for name, _ in _REQUEST)).in_(found))


@lru_cache
def _insert_expiries(dialect: str) -> Insert:
    source = _EXPIRY.source(dialect)
    columns = [name for name, _ in _EXPIRY.columns]
    return insert(expiry).from_select(columns, select(*(source.c[name] for name in columns)))


@lru_cache
def _end_expiries(dialect: str) -> Update:
    source = _END.source(dialect)
    return (
        update(expiry)
        .where(_is_same(expiry, source), expiry.c.offset < source.c.ended_offset)
        .values(ended_offset=source.c.ended_offset)
    )


@lru_cache
def _delete_expiries(dialect: str) -> Delete:
    source = _END.source(dialect)
    found = select(*_names(source))
    return delete(expiry).where(tuple_(*(expiry.c[name] for name, _ in _REQUEST)).in_(found))
