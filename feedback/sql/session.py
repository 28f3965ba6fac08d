"""One connection to a database that is kept open, and the transactions on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from feedback.errors import NotAvailable, OncewardError
from feedback.sql.engine import ALONE
from feedback.sql.keeping import KEPT
from feedback.sql.rights import note_hidden_schema


class Session:
    """Keeps one connection for one thread and opens it again after a fault.

    Args:
        url: the database's URL.
        timeout_s: the longest wait for a connection, for a lock and for a statement, each.
        translate: returns the error to raise for a driver's; None for a fault of this program.
        at_connect: SQL to run on every new connection to SQLite.
        section: the section of the settings that holds the URL, for errors.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        translate: Callable[[DBAPIError], OncewardError | None],
        at_connect: Sequence[str] = (),
        section: str = "journal",
    ) -> None:
        self._translate = translate
        self._section = section
        self._engine = KEPT.engine(url, timeout_s=timeout_s, at_connect=at_connect, section=section)
        self._connection: Connection | None = None

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @contextmanager
    def transaction(self, *, read_only: bool = False, alone: bool = False) -> Iterator[Connection]:
        """Yield the connection in a transaction that commits at the end and rolls back on an error.

        Args:
            read_only: on SQLite, take no write lock. Otherwise the transaction holds it from its
                beginning, so that the rows it reads cannot change.
            alone: the transaction is one statement. On PostgreSQL it costs one round trip instead
                of three, and has the server's default isolation and durability.

        Raises:
            NotAvailable: the database is away or busy; a commit's outcome is unknown.
            OncewardError: any other error that `translate` returns; rolled back.
        """
        try:
            connection = self._connect().execution_options(**{ALONE: alone})
            with connection.begin():
                if self.dialect == "sqlite":
                    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
                yield connection
        except DBAPIError as error:
            note_hidden_schema(error, self._engine, self._section)
            translated = self._translate(error)
            if translated is None or isinstance(translated, NotAvailable):
                self._drop()
            if translated is None:
                raise
            # The driver's error may quote a value, so it is not shown as the cause.
            raise translated from None

    def close(self) -> None:
        """Close the connection, or leave it to another session; the next transaction opens one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _drop(self) -> None:
        """Drop the connection without a call to the server, which may not answer."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
