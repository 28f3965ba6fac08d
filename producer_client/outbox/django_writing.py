"""Writes one request into the outbox through Django's connection, within its transaction.

The same statement as `writing`, and nothing else: if the process dies right after it, Django's
transaction ends without a commit and nothing was ever asked for.

It goes to the driver past Django's cursors: those keep each statement with its parameters, which
are payload here, while DEBUG is on.
"""

from __future__ import annotations

import weakref
from contextlib import closing
from functools import cache
from typing import Any

from sqlalchemy.exc import DBAPIError

from feedback.errors import NotAvailable
from producer_client.outbox.driver_transaction import commits_by_itself, uncommitted_django
from producer_client.outbox.errors import NoTransaction, OutboxVersionError
from producer_client.outbox.faults import translate
from producer_client.outbox.row import columns_of
from producer_client.outbox.row_insert import RowInsert
from producer_client.outbox.schema import require_seen
from producer_client.outbox.sql_texts import (
    dialect_of,
    is_known,
    query_of_schema,
    query_of_version,
)
from producer_client.outbox.tables import SCHEMA_VERSION
from producer_client.outbox.writing import WrittenRow
from producer_client.submission import Prepared

# Django's connections that were seen to have our tables, with the database's name, which a test
# runner changes, and their schema. A thread has its own connection.
_seen: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()


def write_django(using: object, one: Prepared, *, group: str, notify: bool = True) -> WrittenRow:
    """Write a request into the outbox of one of Django's databases.

    Args:
        using: an alias of `DATABASES`; the transaction of this thread's connection is joined.
        notify: whether to wake relays on PostgreSQL; otherwise they find the row when they poll.

    Raises:
        NotAvailable: Django is not installed.
        NoTransaction: no such database, one of another kind, or no transaction of the caller's.
    """
    database = _database(using)
    from django.db import Error

    try:
        _require_transaction(database)
        with database.wrap_database_errors, closing(database.connection.cursor()) as cursor:
            _require_tables(database, cursor)
            insert = _insert(database.vendor, wakes=notify)
            cursor.execute(insert.sql, insert.parameters(columns_of(one, group=group)))
            written_at: int = cursor.fetchone()[0]
    except Error as error:
        # PostgreSQL has given the transaction up. Django does not know it, since its cursor was not
        # asked: a block whose caller catches this would end as if it had committed.
        database.needs_rollback |= database.in_atomic_block and database.vendor == "postgresql"
        raise _translated(error, database) from None
    return WrittenRow(written_at, uncommitted_django(database))


@cache
def _insert(kind: str, *, wakes: bool) -> RowInsert:
    return RowInsert.of(dialect_of(kind), wakes=wakes)


def _database(using: object) -> Any:
    try:
        from django.db import connections
        from django.utils.connection import ConnectionDoesNotExist
    except ImportError as error:
        raise NotAvailable(f"using= needs Django: {error}") from None
    if not isinstance(using, str):
        raise NoTransaction(f"using={type(using).__name__}: give an alias of Django's DATABASES")
    try:
        database = connections[using]
    except ConnectionDoesNotExist:
        raise NoTransaction(f"using={using!r}: Django's DATABASES has no such alias") from None
    if not is_known(database.vendor):
        raise NoTransaction(
            f"using={using!r}: an outbox lies in PostgreSQL or SQLite, not in {database.vendor}"
        )
    if database.vendor == "postgresql" and not _is_psycopg(database):
        raise NoTransaction(f"using={using!r} goes through psycopg2: install psycopg (3)")
    return database


def _is_psycopg(database: Any) -> bool:
    return str(database.Database.__name__) == "psycopg"


def _require_transaction(database: Any) -> None:
    alias = database.alias
    blocks = database.atomic_blocks
    # A TestCase has a transaction of its own: there a caller without one would pass its tests.
    is_of_a_test = bool(blocks) and all(getattr(one, "_from_testcase", False) for one in blocks)
    if database.get_autocommit() or is_of_a_test:
        raise NoTransaction(
            f"using={alias!r} is in autocommit here: there is no transaction to join; "
            f"send inside `with transaction.atomic(using={alias!r}):`"
        )
    if database.needs_rollback:
        raise NoTransaction(
            f"an error has broken the transaction of using={alias!r}: it can only be rolled back"
        )
    driver = database.connection
    if driver is None or commits_by_itself(driver):
        raise NoTransaction(
            f"the transaction of using={alias!r} is over: its connection was closed, or somebody "
            "has sent a COMMIT or ROLLBACK of their own"
        )


def _require_tables(database: Any, cursor: Any) -> None:
    name = str(database.settings_dict["NAME"])
    if _seen.get(database, ("", ""))[0] == name:
        return
    schema = ""
    if database.vendor == "postgresql":
        cursor.execute(query_of_schema())
        schema = require_seen(cursor.fetchone())
    cursor.execute(query_of_version(database.vendor))
    found = cursor.fetchone()
    version = None if found is None else int(found[0])
    if version != SCHEMA_VERSION:
        raise OutboxVersionError(version, SCHEMA_VERSION)
    _seen[database] = name, schema


def _translated(error: Exception, database: Any) -> Exception:
    """Return the error to raise instead of Django's, whose cause is the driver's."""
    is_closed = bool(getattr(database.connection, "closed", False))
    cause = error.__cause__
    if not isinstance(cause, Exception):
        return error
    of_driver = DBAPIError(None, None, cause, connection_invalidated=is_closed)
    _, schema = _seen.pop(database, ("", ""))
    return translate(of_driver, seen_in=schema) or error
