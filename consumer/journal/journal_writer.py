"""A worker that writes: what all statements of its transaction have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from consumer.journal.history import keep_runs, read_rows
from consumer.journal.records import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalWriter:
    """A worker and its transaction.

    Attributes:
        connection: that of the transaction.
        group: the group whose rows it writes.
        worker_id: the owner of its claims.
        outcome_topics: those whose requests wait for the record of their outcome once they have
            ended.
    """

    connection: Connection
    group: str
    worker_id: str
    outcome_topics: Collection[str] = ()

    @property
    def dialect(self) -> str:
        """The name of the database's dialect."""
        return self.connection.dialect.name

    def read(
        self, request_ids: Collection[str], *, lock: bool = False
    ) -> tuple[dict[str, Row], int]:
        """Return the rows of these requests by id, and the clock; see `history.read_rows`."""
        return read_rows(self.connection, self.group, request_ids, lock=lock)

    def keep_runs(
        self,
        runs: Iterable[tuple[str, int]],
        *,
        outcome: str | None = None,
        allowed_by: str | None = None,
    ) -> None:
        """Append runs to the history that it is about to overwrite; see `history.keep_runs`."""
        keep_runs(
            self.connection,
            self.group,
            runs,
            self.worker_id,
            outcome=outcome,
            allowed_by=allowed_by,
        )
