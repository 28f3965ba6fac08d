"""Indexes that workers before version 6 of the tables read on PostgreSQL, and nobody since."""

from __future__ import annotations

from sqlalchemy import Connection, text

from consumer.journal.tables import PARTIAL_INDEXES


def drop_older_indexes(connection: Connection) -> None:
    """Drop them where they still are: while they are there, an update writes all indexes."""
    if connection.dialect.name == "sqlite":
        return
    for name in PARTIAL_INDEXES:
        connection.execute(text(f"DROP INDEX IF EXISTS onceward_request_{name}"))
