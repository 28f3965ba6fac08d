"""One held connection to the journal, and the transactions on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection

from consumer.journal.errors import JournalMoved, translate
from feedback.observer import Observer, observed
from feedback.sql.moved_name import NamedDatabase
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
        self._named = NamedDatabase(url, timeout_s=timeout_s)
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

        Raises:
            JournalMoved: the URL leads to another database by now; rolled back.
        """
        try:
            with self.transaction() as connection:
                yield connection
                if not self._named.is_of(connection):
                    raise JournalMoved
        except JournalMoved:
            # The next transaction is in the database that the URL leads to.
            self._drop()
            raise
