"""What the journal says at the end of a row, read from its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, NullPool, create_engine, select, text
from sqlalchemy.exc import OperationalError

from consumer.journal import migrate
from consumer.journal.tables import request
from feedback.errors import NotAvailable
from tests.kit.banking import Charge

_CHARGES = "chaos_charge"
_COLUMNS = "ordered TEXT NOT NULL, request_id TEXT NOT NULL"


class JournalView:
    """The journal of one row; transactional handlers charge in a table beside it.

    Args:
        url: of an empty database.
        group: the consumer group.

    Raises:
        NotAvailable: the database does not answer.
    """

    def __init__(self, url: str, group: str) -> None:
        self._engine = create_engine(url, poolclass=NullPool)
        self._group = group
        migrate(url)
        with self._connected() as connection:
            connection.execute(text(f"CREATE TABLE {_CHARGES} ({_COLUMNS})"))
            connection.commit()

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            with self._engine.connect() as connection:
                yield connection
        except OperationalError as error:
            raise NotAvailable(f"the journal of the row: {error.orig}") from error

    def states(self) -> dict[str, str]:
        """Return the state of each request that has a row."""
        wanted = select(request.c.request_id, request.c.state)
        with self._connected() as connection:
            rows = connection.execute(wanted.where(request.c.group == self._group))
            return {row.request_id: row.state for row in rows}

    def charges(self) -> tuple[Charge, ...]:
        """Return what transactional handlers have charged."""
        names = "ordered, request_id"
        counted = text(f"SELECT {names}, count(*) AS times FROM {_CHARGES} GROUP BY {names}")
        with self._connected() as connection:
            return tuple(
                Charge(row.ordered, row.request_id, row.times)
                for row in connection.execute(counted)
            )

    def places(self) -> dict[str, tuple[str, int]]:
        """Return topic and partition of each request that has a row."""
        wanted = select(request.c.request_id, request.c.topic, request.c.partition)
        with self._connected() as connection:
            rows = connection.execute(wanted.where(request.c.group == self._group))
            return {row.request_id: (row.topic, row.partition) for row in rows}

    def codes(self) -> dict[str, str]:
        """Return the code of each request that ended with one."""
        wanted = select(request.c.request_id, request.c.code).where(
            request.c.group == self._group, request.c.code.is_not(None)
        )
        with self._connected() as connection:
            return {row.request_id: row.code for row in connection.execute(wanted)}
