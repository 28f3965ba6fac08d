"""One held connection to the journal, and the transactions on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, NullPool
from sqlalchemy.exc import DBAPIError

from consumer.journal.engine import open_engine
from consumer.journal.errors import JournalUnavailable
from consumer.journal.faults import translate


class Session:
    """Keeps one connection for one thread and opens it again after a fault.

    Args:
        url: the journal's URL.
        timeout_s: the longest wait for a connection, for a lock and for a statement, each.
        at_connect: SQL to run on every new connection to SQLite.
        one_statement: each transaction has one only, which PostgreSQL commits by itself.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        at_connect: Sequence[str] = (),
        one_statement: bool = False,
    ) -> None:
        self._engine = open_engine(
            url,
            timeout_s=timeout_s,
            pool={"poolclass": NullPool},
            autocommit=one_statement,
            at_connect=at_connect,
        )
        self._connection: Connection | None = None

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @contextmanager
    def transaction(self, *, read_only: bool = False) -> Iterator[Connection]:
        """Yield the connection in a transaction that commits at the end and rolls back on an error.

        On SQLite it holds the write lock from its beginning, so nothing that it reads can change,
        unless it is `read_only`.

        Raises:
            JournalUnavailable: the database is away or busy; a commit's outcome is unknown.
            DataRefused: the database refuses the data; rolled back.
            JournalVersionError: the journal's tables are missing.
        """
        try:
            connection = self._connect()
            with connection.begin():
                if self.dialect == "sqlite":
                    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
                yield connection
        except DBAPIError as error:
            translated = translate(error)
            if translated is None or isinstance(translated, JournalUnavailable):
                self._drop()
            if translated is None:
                raise
            # The driver's error may quote a value, so it is not shown as the cause.
            raise translated from None

    def close(self) -> None:
        """Close the connection; the next transaction opens one again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connect(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    def _drop(self) -> None:
        """Throw the connection away without a word to a server that may not answer."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
