"""What the server says of the table of requests: its log, its updates and its sizes."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg import Connection

from tests.stack.postgres import dsn

TABLE = "onceward_request"


@dataclass(frozen=True, slots=True)
class Counted:
    """The server's counters at one moment.

    Attributes:
        wal_bytes: position in the write-ahead log.
        hot: of the updates, those that touched no index.
    """

    wal_bytes: int
    updates: int
    hot: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of the table, without and of its indexes."""

    heap_bytes: int
    index_bytes: int


class Server:
    """Reads them, on a connection of its own. Close it after use.

    Args:
        url: the journal's URL.
    """

    def __init__(self, url: str) -> None:
        self._connection: Connection[tuple[int, ...]] = psycopg.connect(dsn(url), autocommit=True)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def checkpoint(self) -> None:
        """Let no page be written whole that was written before."""
        self._connection.execute("CHECKPOINT")

    def counted(self) -> Counted:
        """Return the counters."""
        (wal_bytes,) = self._one("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
        # What other sessions have counted is added up a moment after they end.
        updates, hot = self._one(
            "SELECT coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_hot_upd), 0) "
            f"FROM pg_stat_user_tables WHERE relname = '{TABLE}'"
        )
        return Counted(int(wal_bytes), int(updates), int(hot))

    def sizes(self) -> Sizes:
        """Return the sizes."""
        return Sizes(
            *self._one(f"SELECT pg_table_size('{TABLE}'), pg_indexes_size('{TABLE}')"),
        )

    def open_bytes(self) -> int:
        """Return the size of the copy of the open requests, with its indexes."""
        return self._one("SELECT pg_total_relation_size('onceward_open')")[0]

    def _one(self, statement: str) -> tuple[int, ...]:
        row = self._connection.execute(statement).fetchone()
        assert row is not None
        return row
