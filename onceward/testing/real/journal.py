"""The journal of a real bench: an SQLite file, which can be away."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import NullPool, create_engine, func, select

from consumer.journal import JournalState
from consumer.journal.schema import migrate
from consumer.journal.tables import run


class FileJournal:
    """An empty journal in a file; its folder is removed by others.

    Args:
        path: of the file.

    Attributes:
        url: opens it.
        is_away: whether it answers nobody who writes.
    """

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.is_away = False
        migrate(self.url)
        self._lock = sqlite3.connect(
            path, isolation_level=None, timeout=30, check_same_thread=False
        )

    def go_away(self) -> None:
        """Take the lock of writers, and keep it."""
        if not self.is_away:
            self._lock.execute("BEGIN EXCLUSIVE")
        self.is_away = True

    def come_back(self) -> None:
        """Give the lock back."""
        if self.is_away:
            self._lock.rollback()
        self.is_away = False

    def earlier_successes(self, request_id: str) -> int:
        """Return how many runs before the latest one have succeeded."""
        engine = create_engine(self.url, poolclass=NullPool)
        wanted = select(func.count()).where(
            run.c.request_id == request_id, run.c.outcome == JournalState.SUCCEEDED
        )
        with engine.connect() as connection:
            return int(connection.execute(wanted).scalar_one())

    def close(self) -> None:
        """Close the lock's connection."""
        self._lock.close()
