"""Writes rows of one process into the outbox, in threads of their own.

A database that hangs must not delay a caller for longer than it allowed.

On SQLite one thread writes, and all rows that wait meanwhile are one commit. Connections that wait
for SQLite's lock ask again after pauses that grow to 100 ms, and a later caller may be served
first. Measured: of 20 callers on four connections one waited 1 s in vain while half waited 20 ms.

If the process dies before a commit, none of its rows is there; after it, all are.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection, QueuePool, bindparam, literal, select
from sqlalchemy.exc import DBAPIError

from feedback.errors import NotAvailable
from feedback.sql.engine import open_engine
from feedback.sql.rights import note_hidden_schema
from producer_client.outbox import writing
from producer_client.outbox.errors import RowRefused
from producer_client.outbox.faults import translate
from producer_client.outbox.tables import RowState
from producer_client.outbox.tables import row as table
from producer_client.submission import Prepared

POSTGRES_THREADS = 4
ROWS_AT_ONCE = 64


class Uncommitted(NotAvailable):
    """Nobody knows whether the row was committed."""


class _Row(NamedTuple):
    """A request, and its caller's future.

    Once the future runs, the row is written; until then it can be cancelled, and is then never
    written.
    """

    one: Prepared
    written: Future[None]


class RowWriter:
    """Writes rows of one group; any thread may call it, in the process that made it.

    Args:
        notify: whether to wake relays on PostgreSQL.

    Raises:
        SettingsError: the URL is malformed.
        NotAvailable: the driver for this database is not installed.
    """

    def __init__(self, url: str, *, group: str, timeout_s: float, notify: bool) -> None:
        pool = {"poolclass": QueuePool, "pool_size": POSTGRES_THREADS, "max_overflow": 0}
        self._engine = open_engine(url, timeout_s=timeout_s, pool=pool, section="outbox")
        self._is_sqlite = self._engine.dialect.name == "sqlite"
        self._threads = ThreadPoolExecutor(
            1 if self._is_sqlite else POSTGRES_THREADS, thread_name_prefix="onceward-outbox"
        )
        self._waiting: deque[_Row] = deque()
        self._group = group
        self._notify = notify
        self.pid = os.getpid()

    def put(self, one: Prepared) -> Future[None]:
        """Queue a row; the future ends when it is committed, or with an error.

        The errors are those of `writing.write`, and `Uncommitted`. If the future can still
        be cancelled, nothing of the row will ever be committed.
        """
        row = _Row(one, Future())
        settled: list[_Row] = []
        if self._is_sqlite:
            self._waiting.append(row)
        write = self._write_waiting if self._is_sqlite else self._write_one
        task = self._threads.submit(write, row, settled)
        task.add_done_callback(partial(_settle, row, settled))
        return row.written

    def probe(self, one: Prepared) -> Future[None]:
        """Write a row and roll it back: the future's errors are those of `put`."""
        return self._threads.submit(self._try, one)

    def keeps(self, request_id: str) -> Future[bool]:
        """Look whether a row of the request is there that was not sent."""
        return self._threads.submit(self._keeps, request_id)

    def close(self) -> None:
        """Finish the rows being written, cancel the waiting ones, and close the connections."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._engine.dispose()

    def _write_one(self, row: _Row, settled: list[_Row]) -> None:
        if row.written.done():
            return
        with self._transaction() as connection:
            self._insert(connection, row.one)
            if _has_caller(row):
                settled.append(row)
                _commit(connection)

    def _write_waiting(self, row: _Row, settled: list[_Row]) -> None:
        """Write a row and all that wait behind it, unless an earlier transaction wrote it."""
        if row.written.done():
            return
        try:
            with self._transaction() as connection:
                settled += self._taken()
                self._insert_each(connection, settled)
                _commit(connection)
        except BaseException:
            if not settled and row in self._waiting:
                # Nothing was begun: its caller learns so, and nobody writes it after that.
                self._waiting.remove(row)
            raise

    def _insert_each(self, connection: Connection, rows: Sequence[_Row]) -> None:
        for row in rows:
            try:
                self._insert(connection, row.one)
            except RowRefused as error:
                if not _is_open(connection):
                    raise  # a trigger has rolled back the rows before as well
                row.written.set_exception(error)

    def _taken(self) -> list[_Row]:
        """Return the first rows that still have a caller; from now on they must be written."""
        taken: list[_Row] = []
        while self._waiting and len(taken) < ROWS_AT_ONCE:
            row = self._waiting.popleft()
            if _has_caller(row):
                taken.append(row)
        return taken

    def _try(self, one: Prepared) -> None:
        with self._transaction() as connection:
            self._insert(connection, one)

    def _keeps(self, request_id: str) -> bool:
        with self._transaction(reads=True) as connection:
            given = {"g": self._group, "name": request_id}
            return connection.execute(_KEPT, given).first() is not None

    @contextmanager
    def _transaction(self, *, reads: bool = False) -> Iterator[Connection]:
        """Yield a connection without autocommit.

        Args:
            reads: it writes nothing, and waits for nobody's lock.
        """
        try:
            with self._engine.connect() as connection:
                connection.begin()
                if self._is_sqlite:
                    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
                yield connection
        except DBAPIError as error:
            note_hidden_schema(error, self._engine, "outbox")
            raise translate(error) or error from None

    def _insert(self, connection: Connection, one: Prepared) -> None:
        writing.write(connection, one, group=self._group, notify=self._notify)


# By the index of the rows that wait, which are few.
_KEPT = (
    select(literal(1))
    .where(
        table.c.group == bindparam("g"),
        table.c.state.in_((RowState.WAITING, RowState.PARKED)),
        table.c.request_id == bindparam("name"),
    )
    .limit(1)
)


def _is_open(connection: Connection) -> bool:
    """Whether SQLite's transaction is still open."""
    driver = connection.connection.driver_connection
    return isinstance(driver, sqlite3.Connection) and driver.in_transaction


def _commit(connection: Connection) -> None:
    try:
        connection.commit()
    except DBAPIError as error:
        # The answer proves nothing: a pooler answers in the name of a server that has died.
        raise Uncommitted(str(translate(error) or type(error).__name__)) from None


def _settle(own: _Row, settled: list[_Row], task: Future[None]) -> None:
    """Report to the callers how the transaction of their rows ended."""
    if task.cancelled():
        own.written.cancel()
        return
    error = task.exception()
    if error is not None and not settled and _has_caller(own):
        settled = [own]
    for row in settled:
        if row.written.done():
            continue  # it was refused alone
        if error is None:
            row.written.set_result(None)
        else:
            row.written.set_exception(error)


def _has_caller(row: _Row) -> bool:
    """Whether it was not cancelled; from now on it cannot be."""
    return not row.written.cancelled() and row.written.set_running_or_notify_cancel()
