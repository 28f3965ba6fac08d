"""The one statement that writes a row of the outbox, as a driver takes it.

On PostgreSQL the same statement wakes the relays. A NOTIFY is delivered at the commit, and those of
one transaction are one. Its price: commits that notify go through one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Executable,
    bindparam,
    func,
    insert,
    literal_column,
    select,
)
from sqlalchemy.engine import Dialect

from feedback.sql.clock import now_ms
from producer_client.outbox.tables import RowState, row

CHANNEL = "onceward_outbox"

_GIVEN = (
    "group",
    "lane",
    "request_id",
    "topic",
    "message_key",
    "value",
    "headers",
    "payload_sha256",
    "size_bytes",
    "attempt",
    "deadline_at",
)


class RowInsert(NamedTuple):
    """The statement without SQLAlchemy's work for each execution.

    That work took half as long as the round trip.

    Attributes:
        statement: as SQLAlchemy takes it.
        sql: as a driver takes it; it returns the row's `created_at`.
        order: of the parameters, for drivers that take them by position.
    """

    statement: Executable
    sql: str
    order: tuple[str, ...] | None

    @classmethod
    def of(cls, dialect: Dialect, *, wakes: bool) -> RowInsert:
        """Return the statement of a dialect, which wakes relays or does not."""
        named: dict[str, Any] = {name: bindparam(name) for name in _GIVEN}
        waiting: ColumnElement[str] = literal_column(f"'{RowState.WAITING}'")
        values = insert(row).values(**named, created_at=now_ms(), state=waiting)
        statement: Any = values.returning(row.c.created_at)
        if wakes and dialect.name == "postgresql":
            # One statement, one round trip: the row, and its NOTIFY.
            made = statement.cte("made")
            channel: ColumnElement[str] = literal_column(f"'{CHANNEL}'")
            statement = select(made.c.created_at, func.pg_notify(channel, literal_column("''")))
        compiled = statement.compile(dialect=dialect)
        order = compiled.positiontup
        return cls(statement, str(compiled), None if order is None else tuple(order))

    def parameters(self, columns: Mapping[str, Any]) -> Any:
        """Return the values of `row.columns_of` as the driver takes them beside `sql`."""
        return columns if self.order is None else tuple(columns[name] for name in self.order)
