"""Writes one request into the outbox, within the caller's transaction.

One statement, and nothing else: no Redis, no Kafka. If the process dies right after it, the
transaction ends without a commit and nothing was ever asked for; once it is committed, a relay
sends the request.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session

from feedback.errors import InvalidMessage
from feedback.kafka.senders import size_of_record
from feedback.records.envelope import encode_headers
from producer_client.outbox.driver_transaction import commits_by_itself, uncommitted
from producer_client.outbox.errors import NoTransaction
from producer_client.outbox.faults import translate
from producer_client.outbox.row import columns_of
from producer_client.outbox.row_insert import RowInsert
from producer_client.outbox.schema import check_version
from producer_client.submission import Prepared


class _SeenTables(NamedTuple):
    """The tables of an engine's database: their schema, and inserts that wake relays or do not."""

    schema: str
    inserts: dict[bool, RowInsert]


_seen: weakref.WeakKeyDictionary[Engine, _SeenTables] = weakref.WeakKeyDictionary()


class WrittenRow(NamedTuple):
    """A row that waits for the caller's commit.

    Attributes:
        written_at: its `created_at`, in epoch ms of the database's clock.
        is_uncommitted: whether who asks has not committed it; see `driver_transaction`.
    """

    written_at: int
    is_uncommitted: Callable[[], bool]


def write(connection: object, one: Prepared, *, group: str, notify: bool = True) -> WrittenRow:
    """Write a request into the outbox of a connection's database.

    Args:
        connection: a SQLAlchemy `Connection` or `Session`; its transaction is joined, or begins
            here if none has.
        notify: whether to wake relays on PostgreSQL; otherwise they find the row when they poll.

    Raises:
        NoTransaction: the connection is in autocommit, of another kind or of another database; or
            its transaction has failed before.
        OutboxVersionError: the tables are missing or of another version.
        OutboxForbidden: the database's user lacks a right.
        OutboxUnavailable: the database is away, full or read-only.
        RowRefused: the database does not take it. After any of these errors nothing is written. On
            PostgreSQL the transaction can then only be rolled back, except after the first.
    """
    joined = _joined(connection)
    seen = _seen.get(joined.engine)
    try:
        tables = seen or _look(joined)
        written_at = _execute(joined, tables.inserts[notify], columns_of(one, group=group))
        return WrittenRow(written_at, uncommitted(joined))
    except DBAPIError as error:
        _seen.pop(joined.engine, None)
        raise translate(error, seen_in=seen.schema if seen else "") or error from None


def _look(joined: Connection) -> _SeenTables:
    """Return the tables, and remember that they were seen."""
    schema = check_version(joined)
    inserts = {wakes: RowInsert.of(joined.dialect, wakes=wakes) for wakes in (True, False)}
    found = _seen[joined.engine] = _SeenTables(schema, inserts)
    return found


async def write_async(
    connection: object, one: Prepared, *, group: str, notify: bool = True
) -> WrittenRow:
    """Write a request as `write` does, over a connection for asyncio."""
    # By their attributes: importing the classes needs greenlet, which is there if one was made.
    registry = getattr(connection, "registry", None)
    joined = connection if registry is None else registry()  # that of an async_scoped_session
    if not hasattr(joined, "run_sync"):
        raise NoTransaction(
            f"connection={type(connection).__name__}: give a SQLAlchemy AsyncConnection or "
            "AsyncSession (others: to a Client)"
        )
    row: WrittenRow = await joined.run_sync(write, one, group=group, notify=notify)
    return row


def require_sendable(one: Prepared, *, max_request_bytes: int) -> None:
    """Return when Kafka can take a request, as far as that is known without asking.

    Raises:
        InvalidMessage: it is too large.
    """
    if is_too_large(one, max_request_bytes=max_request_bytes):
        raise InvalidMessage(f"the record is larger than {max_request_bytes} bytes")


def is_too_large(one: Prepared, *, max_request_bytes: int) -> bool:
    """Whether a sender with this limit would refuse it."""
    payload = one.payload
    headers = encode_headers(one.envelope, payload.headers)
    return size_of_record(payload.key, payload.value, headers) > max_request_bytes


def _joined(connection: object) -> Connection:
    if isinstance(connection, (Session, scoped_session)):
        connection = connection.connection()
    if not isinstance(connection, Connection):
        raise NoTransaction(
            f"connection={type(connection).__name__}: give a SQLAlchemy Connection or Session "
            "(those of asyncio: to an AsyncClient; of Django: using=)"
        )
    if connection.dialect.name not in ("postgresql", "sqlite"):
        raise NoTransaction(
            f"an outbox lies in PostgreSQL or SQLite, not in {connection.dialect.name}"
        )
    try:
        driver = _driver(connection)
    except DBAPIError as error:
        raise translate(error) or error from None
    if commits_by_itself(driver):
        raise NoTransaction(
            "the connection is in autocommit: there is no transaction to join; "
            "give one without that isolation level"
        )
    return connection


def _driver(connection: Connection) -> Any:
    pooled = connection.connection
    # With asyncio, the adapter knows of a transaction on PostgreSQL, and aiosqlite itself does.
    is_sqlite = connection.dialect.name == "sqlite"
    return pooled.driver_connection if is_sqlite else pooled.dbapi_connection


def _execute(joined: Connection, written: RowInsert, columns: Mapping[str, Any]) -> int:
    if "schema_translate_map" in joined.get_execution_options():
        # The connection decides where the tables lie: only SQLAlchemy knows that.
        found = joined.execute(written.statement, columns)
    else:
        found = joined.exec_driver_sql(written.sql, written.parameters(columns))
    written_at: int = found.scalar_one()
    return written_at
