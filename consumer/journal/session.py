"""One held connection to the journal, and the transactions on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from consumer.journal.errors import JournalMoved, translate
from feedback.observer import Observer, observed
from feedback.sql.moved_name import DatabasePlace, has_other_file, place_of
from feedback.sql.session import Session as DatabaseSession


class JournalSession(DatabaseSession):
    """Keeps one connection for one thread and opens it again after a fault.

    Its transactions raise JournalUnavailable when the database is away or busy (a commit's outcome
    is then unknown), DataRefused when it refuses the data (rolled back), and JournalVersionError
    when the journal's tables are missing.

    Args:
        timeout_s: the longest wait for a connection, for a lock and for a statement, each.
        at_connect: SQL to run on every new connection to SQLite.

    Attributes:
        observers: hear of each transaction, as `purpose`.
    """

    def __init__(self, url: str, *, timeout_s: float, at_connect: Sequence[str] = ()) -> None:
        super().__init__(url, timeout_s=timeout_s, translate=translate, at_connect=at_connect)
        self.observers: Sequence[Observer] = ()
        self.purpose = "journal"

    @contextmanager
    def transaction(self, *, read_only: bool = False, alone: bool = False) -> Iterator[Connection]:
        """Yield the connection in a transaction, as the session of any database does."""
        with (
            observed(self.observers, self.purpose),
            super().transaction(read_only=read_only, alone=alone) as connection,
        ):
            yield connection

    @contextmanager
    def deed(self) -> Iterator[Connection]:
        """Yield the connection in a transaction that commits an act which a person is told of.

        On PostgreSQL a connection is made for it, in place of the one that is held: the user may
        have no more than one, and behind a pooler nothing waits for another while it has locks. So
        a name that moves while the transaction goes on is not seen; another file is, to its end.

        Raises:
            JournalMoved: the URL leads to another database by now; nothing was committed.
        """
        named = self._connect_anew() if self.dialect == "postgresql" else None
        try:
            with self.transaction() as connection:
                yield connection
                # A pooler may begin it on another server than it has answered on before.
                if has_other_file(connection) if named is None else place_of(connection) != named:
                    raise JournalMoved
        except JournalMoved:
            # The next transaction is in the database that the URL leads to.
            self._drop()
            raise

    def _connect_anew(self) -> DatabasePlace | None:
        """Return the place that the URL leads to.

        Raises:
            JournalMoved: it is not that of the connection that was held.
        """
        former = None if self._connection is None else self._place()
        self.close()
        named = self._place()
        if former not in (None, named):
            raise JournalMoved
        return named

    def _place(self) -> DatabasePlace | None:
        with super().transaction(read_only=True, alone=True) as connection:
            return place_of(connection)
