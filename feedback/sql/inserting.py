"""Inserts that say how to go on where the row exists: each database has its own class for them."""

from __future__ import annotations

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_into(table: Table, dialect: str) -> postgresql.Insert | sqlite.Insert:
    """Return an insert that knows `on_conflict_do_nothing` and `on_conflict_do_update`.

    Of rows that a SELECT makes, SQLite reads ON CONFLICT as part of a join unless a WHERE stands
    before it.

    Args:
        dialect: `sqlite` or `postgresql`.
    """
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
