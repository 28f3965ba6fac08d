"""What workers do for others: sweeps of the dead, and endings for a Redis that came back empty."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from consumer.journal import DeadEnd, Row, State
from consumer.journal.republish import Holder, Turn
from tests.simulation.tables import Change, Tables


class Peers(Tables):
    """The statements of `consumer.journal.sweep` and `republish`, with their conditions."""

    def __init__(self, now_ms: Callable[[], int], on_change: Callable[[Change], None]) -> None:
        super().__init__(now_ms, on_change)
        self._republishing = Holder()

    # sweeps --------------------------------------------------------------------------------

    def dead_claims(self, worker_id: str, topics: Collection[str], limit: int) -> list[Row]:
        """Return claims of workers without a live lease; none while one's own is over."""
        found = [
            row
            for row in self.rows.values()
            if self.is_dead(row, worker_id) and row.topic in topics
        ]
        return sorted(found, key=lambda row: (row.owner, row.request_id))[:limit]

    def is_dead(self, row: Row, worker_id: str) -> bool:
        """Say the condition of a sweep."""
        is_late = worker_id in self.leases and not self.lives(worker_id)
        return row.state == State.CLAIMED and not self.lives(row.owner) and not is_late

    def end_dead(self, worker_id: str, ends: Sequence[DeadEnd]) -> list[Row]:
        """End claims of workers without a live lease; return the rows that were ended."""
        rows = []
        for end in sorted(ends, key=lambda one: one.request_id):
            row = self.rows.get(end.request_id)
            if row is None or row.generation != end.generation or not self.is_dead(row, worker_id):
                continue
            ended = row._replace(
                state=str(end.state),
                code=end.code,
                message=end.message,
                finished_at=self.now_ms(),
                published_at=None,
            )
            self._write(row, ended, worker_id)
            rows.append(ended)
        return rows

    def unpublished(self, limit: int, older_than_ms: int) -> list[Row]:
        """Return rows whose state no status was confirmed for, the oldest first."""
        until = self.now_ms() - older_than_ms
        found = [
            row
            for row in self.rows.values()
            if row.published_at is None
            and row.state != State.CLAIMED
            and (row.finished_at or 0) <= until
        ]
        return sorted(found, key=lambda row: row.finished_at or 0)[:limit]

    # republishing --------------------------------------------------------------------------

    def take_republication(self, worker_id: str, run_id: str) -> Turn:
        """Return whose turn it is to tell the endings again to this start of Redis."""
        holder = self._republishing
        if run_id in holder.served:
            return Turn.DONE
        if holder.worker_id not in ("", worker_id) and self.lives(holder.worker_id):
            return Turn.OTHERS
        self._republishing = replace(holder, worker_id=worker_id)
        return Turn.MINE

    def end_republication(self, worker_id: str, run_id: str | None) -> bool:
        """Give the turn back."""
        if self._republishing.worker_id != worker_id:
            return False
        self._republishing = self._republishing.released(served=run_id)
        return True

    def endings(self) -> list[Row]:
        """Return every row that has ended."""
        return [row for row in self.rows.values() if row.state != State.CLAIMED]
