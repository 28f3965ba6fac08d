"""Pruning: the journal forgets what ended long ago, and keeps how far it has forgotten."""

from __future__ import annotations

from collections.abc import Mapping

from consumer.journal import Claim, Row
from consumer.journal.claims.forgetting import (
    MESSAGE,
    PruneMark,
    is_forgotten,
)
from consumer.journal.records import FORGOTTEN, JournalState
from consumer.journal.sweeps.pruning import PRUNED_STATES
from tests.simulation.kafka import Partition
from tests.simulation.tables import Tables


class Pruning(Tables):
    """The statements of `sweeps.pruning` and `claims.forgetting`, with their conditions."""

    def prunable(self, retention_ms: int) -> list[Row]:
        """Return what ended, and whose deadline was over, so long ago."""
        longest_ago = self.now_ms() - retention_ms
        return [
            row
            for row in self.rows.values()
            if row.deadline_at <= longest_ago
            and row.finished_at is not None
            and row.finished_at <= longest_ago
            and row.state in PRUNED_STATES
        ]

    def prune(self, retention_ms: int) -> list[str]:
        """Delete these, and workers long gone; return the ids of the requests."""
        deadlines = {row.request_id: row.deadline_at for row in self.prunable(retention_ms)}
        for request_id, deadline_at in deadlines.items():
            row = self.rows.pop(request_id)
            self._remember(row.topic, row.partition, row.offset, deadline_at)
        for run in self.history:
            if run.request_id in deadlines:
                self._remember(*run.place, deadlines[run.request_id])
        self.history = [one for one in self.history if one.request_id not in deadlines]
        longest_ago = self.now_ms() - retention_ms
        self.leases = {name: until for name, until in self.leases.items() if until > longest_ago}
        return sorted(deadlines)

    def _remember(self, topic: str, partition: int, offset: int, deadline_at: int) -> None:
        mark = self.forgotten.get((topic, partition), PruneMark(0, 0))
        latest = max(mark.deadline_at, deadline_at)
        self.forgotten[topic, partition] = PruneMark(max(mark.next_offset, offset + 1), latest)

    def doubted(self, claim: Claim, first: Row) -> Row | None:
        """Return the row of a first claim that may have ended and been forgotten; else None."""
        asked = first.state == JournalState.EXPIRED or claim.names_no_deadline
        if not asked or not is_forgotten(claim, self.marks()):
            return None
        return first._replace(
            state=JournalState.IN_DOUBT.value,
            claimed_at=None,
            effect_at=None,
            finished_at=self.now_ms(),
            code=FORGOTTEN,
            message=MESSAGE,
        )

    def marks(self) -> Mapping[Partition, PruneMark]:
        """Return how far each partition was forgotten."""
        return self.forgotten
