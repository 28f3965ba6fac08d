"""Names the index of a query on SQLite, whose planner goes by statistics where somebody made some.

After `ANALYZE` it may take another index for a partial one that holds next to nothing, and so read
all rows of a group.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, FromClause, Select
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler


class IndexHintCompiler(SQLiteCompiler):
    """Writes the hints of a query, which SQLAlchemy leaves out for SQLite."""

    def get_from_hint_text(self, table: FromClause, text: str | None) -> str | None:
        """Return what stands behind the name of a table."""
        return text


def take_hints(engine: Engine) -> None:
    """Have the statements of an engine for SQLite name their indexes."""
    engine.dialect.statement_compiler = IndexHintCompiler


def indexed_by(wanted: Select[Any], rows: FromClause, index: str) -> Select[Any]:
    """Return a query that reads a table by this index, and fails without it; on SQLite alone."""
    return wanted.with_hint(rows, f"INDEXED BY {index}", "sqlite")
