"""Batches as tables: how many values reach the database in one statement.

On PostgreSQL a batch is one JSON parameter, unfolded by `json_to_recordset`: measured, half the
client's cost of typed arrays. On SQLite it is a table in memory of the connection, filled by the
driver's `executemany`: measured, half the cost of SQLite's JSON functions. Either way the
statements are the same and built once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    cast,
    column,
    func,
    select,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable
from sqlalchemy.types import JSON, TypeEngine

from consumer.journal.errors import DataRefused
from consumer.journal.tables import BIGINT, SMALLINT

Columns = tuple[tuple[str, TypeEngine[Any]], ...]


@dataclass(frozen=True)
class BatchShape:
    """The columns of one kind of batch; every batch has the group as its first.

    The group is a column and not a parameter, so that a planner without statistics has no reason
    to begin with all rows of the group instead of with the batch.

    Args:
        name: part of the temporary table's name.
        columns: name and type of each column, in the order of a row's values.
    """

    name: str
    columns: Columns

    def source(self, dialect: str) -> FromClause:
        if dialect == "sqlite":
            return self._table
        # JSON has no bytes: they travel as hex, see `binary`.
        columns = [
            column(name, Text() if isinstance(kind, LargeBinary) else kind)
            for name, kind in self.columns
        ]
        # Sent as text: SQLAlchemy's own JSON type would encode the encoded batch again.
        values = func.json_to_recordset(cast(bindparam("batch", type_=Text()), JSON))
        given = values.table_valued(*columns).render_derived(name="given", with_types=True)
        # PostgreSQL takes any such function for 100 rows. For so many it would rather read a whole
        # table of some thousand rows than look each of them up, also where there is one.
        rows = bindparam("batch_rows", type_=Integer())
        return select(*given.c).limit(rows).subquery("batch")

    def load(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> dict[str, object]:
        """Make rows the current batch; return the parameters that the statement needs for it.

        Raises:
            DataRefused: one of the values cannot be carried to SQLite, or not to PostgreSQL.
        """
        if connection.dialect.name != "sqlite":
            names = [name for name, _ in self.columns]
            values = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
            return {"batch": values, "batch_rows": len(rows)}
        if "\0" in "".join([row[place] or "" for row in rows for place in self._foreign]):
            # PostgreSQL has no NUL in text; refusing it here keeps the two databases alike.
            raise DataRefused("NUL in text")
        connection.exec_driver_sql(self._empty)
        try:
            connection.exec_driver_sql(self._fill, list(rows))
        except (OverflowError, UnicodeEncodeError) as error:
            raise DataRefused(type(error).__name__) from None
        return {}

    @cached_property
    def ddl(self) -> str:
        """The statement that makes the batch's table on a new connection to SQLite."""
        return str(CreateTable(self._table).compile(dialect=sqlite.dialect()))

    @cached_property
    def _table(self) -> Table:
        return Table(
            f"onceward_batch_{self.name}",
            MetaData(),
            *(Column(name, kind) for name, kind in self.columns),
            prefixes=["TEMPORARY"],
            sqlite_strict=True,
        )

    @cached_property
    def _foreign(self) -> list[int]:
        foreign = {"request_id", "code", "message", "result"}
        return [place for place, (name, _) in enumerate(self.columns) if name in foreign]

    @cached_property
    def _empty(self) -> str:
        return f"DELETE FROM {self._table.name}"

    @cached_property
    def _fill(self) -> str:
        return f"INSERT INTO {self._table.name} VALUES ({', '.join('?' * len(self.columns))})"


def binary(value: ColumnElement[object], dialect: str) -> ColumnElement[object]:
    return value if dialect == "sqlite" else func.decode(value, "hex")


def carry(value: bytes | None, dialect: str) -> bytes | str | None:
    return value if value is None or dialect == "sqlite" else value.hex()


_TEXT = Text()
_KEY: Columns = (("group", _TEXT), ("request_id", _TEXT))
_RECORD: Columns = (
    ("topic", _TEXT),
    ("partition", Integer()),
    ("offset", BIGINT),
    ("message_key", LargeBinary()),
    ("payload_sha256", _TEXT),
    ("attempt", BIGINT),
    ("deadline_at", BIGINT),
)
_RUN: Columns = (*_KEY, ("generation", BIGINT))
_STATE: Columns = (*_RUN, ("state", _TEXT))
_CLAIM: Columns = (
    *_KEY,
    *_RECORD,
    ("effect_kind", _TEXT),
    ("in_doubt", _TEXT),
    ("order_key", _TEXT),
    ("generation", BIGINT),
)
_REFUSAL: Columns = (
    *_KEY,
    *_RECORD,
    ("code", _TEXT),
    ("message", _TEXT),
    ("generation", BIGINT),
)
_FINISH: Columns = (
    *_STATE,
    ("code", _TEXT),
    ("message", _TEXT),
    ("result", _TEXT),
    ("resend", SMALLINT),
    ("delay_ms", BIGINT),
)
CLAIMS = BatchShape("claim", _CLAIM)
REFUSALS = BatchShape("refusal", _REFUSAL)
SKIPS = BatchShape("skip", (*_CLAIM, ("by", _TEXT), ("by_generation", BIGINT)))
RUNS = BatchShape("run", _RUN)
STATES = BatchShape("state", _STATE)
FINISHES = BatchShape("finish", _FINISH)
SHAPES = (CLAIMS, REFUSALS, SKIPS, RUNS, STATES, FINISHES)
