"""States spelled out in statements, and not as parameters.

SQLite takes a partial index only where the text itself shows that it may, and so does a generic
plan of PostgreSQL.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, literal_column

from consumer.journal.records import JournalState

CLAIMED: ColumnElement[str] = literal_column(f"'{JournalState.CLAIMED.value}'")
IN_DOUBT: ColumnElement[str] = literal_column(f"'{JournalState.IN_DOUBT.value}'")
RETRYING: ColumnElement[str] = literal_column(f"'{JournalState.RETRYING.value}'")
