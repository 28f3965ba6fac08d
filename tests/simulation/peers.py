"""What workers do for others: sweeps of the dead, and endings for a Redis that came back empty."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from consumer.journal import DeadEnd, FarLease, JournalState, Row, UnhandledRequest
from consumer.journal.losses.lost_rows import why_followed
from consumer.journal.losses.republish import RestoreTurn, WhoseTurn
from consumer.journal.pacing import EVER_MS
from consumer.journal.records import DEADLINE_OVER, WORKER_DIED, over_message
from feedback.status import DISOWNED
from tests.simulation.pruning import Pruning
from tests.simulation.tables import Change


class Peers(Pruning):
    """The statements of `sweeps.sweep` and `losses.republish`, with their conditions."""

    def __init__(self, now_ms: Callable[[], int], on_change: Callable[[Change], None]) -> None:
        super().__init__(now_ms, on_change)
        self._republishing = RestoreTurn()

    # sweeps --------------------------------------------------------------------------------

    def dead_claims(
        self,
        worker_id: str,
        topics: Collection[str],
        limit: int,
        after: tuple[str, str] = ("", ""),
    ) -> list[Row]:
        """Return claims of workers without a live lease; none while one's own is over."""
        found = [
            row
            for row in self.rows.values()
            if self.is_dead(row, worker_id) and row.topic in topics
            if (row.owner, row.request_id) > after
        ]
        return sorted(found, key=lambda row: (row.owner, row.request_id))[:limit]

    def is_dead(self, row: Row, worker_id: str) -> bool:
        """Say the condition of a sweep."""
        is_late = worker_id in self.leases and not self.lives(worker_id)
        return row.state == JournalState.CLAIMED and not self.lives(row.owner) and not is_late

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
                result=end.result,
                resend=end.resend,
                generation=end.told_generation or end.generation,
                voids=row.voids if end.voids is None else end.voids,
                finished_at=self.now_ms(),
                published_at=None,
            )
            if end.later is not None:
                why = why_followed(row, end.later, end.told_generation or end.generation)
                self._keep(row, worker_id, outcome=WORKER_DIED, allowed_by=why)
            self._write(row, ended, worker_id)
            rows.append(ended)
        return rows

    def unhandled(
        self, worker_id: str, topics: Collection[str], limit: int, late_ms: int
    ) -> list[UnhandledRequest]:
        """Return what dead workers left, or waits, on any other topic than these."""
        is_late = worker_id in self.leases and not self.lives(worker_id)
        found = [
            UnhandledRequest(row, row.deadline_at + late_ms <= self.now_ms())
            for row in self.rows.values()
            if row.topic not in topics
            and (
                self.is_dead(row, worker_id) or (row.state == JournalState.RETRYING and not is_late)
            )
        ]
        return sorted(found, key=lambda one: one.row.deadline_at)[:limit]

    def far_leases(self, ahead_ms: int) -> list[FarLease]:
        """Return the leases that end more than `ahead_ms` from now."""
        latest = self.now_ms() + ahead_ms
        return [FarLease(*one) for one in self.leases.items() if one[1] > latest]

    def end_leases(self, leases: Sequence[FarLease]) -> int:
        """End leases that are still as they were seen."""
        ended = [one for one in leases if self.leases.get(one.worker_id) == one.lease_until]
        self.leases.update({one.worker_id: self.now_ms() for one in ended})
        return len(ended)

    def end_retries(self, worker_id: str, rows: Sequence[Row]) -> list[Row]:
        """End what waits for a next run that it will not have; all of it is past its deadline."""
        ended = []
        for row in rows:
            if self.rows.get(row.request_id) == row:
                after = row._replace(
                    state=str(JournalState.EXPIRED),
                    code=DEADLINE_OVER,
                    message=over_message((self.now_ms() - row.deadline_at) // 1000),
                    owner=worker_id,
                    due_at=None,
                    finished_at=self.now_ms(),
                    published_at=None,
                )
                self._write(row, after, worker_id)
                ended.append(after)
        return ended

    def own_claims(self, worker_id: str) -> list[Row]:
        """Return the claims of a worker."""
        return [
            row
            for row in self.rows.values()
            if row.owner == worker_id and row.state == JournalState.CLAIMED
        ]

    def disown(self, worker_id: str, runs: Sequence[tuple[str, int]]) -> None:
        """Let claims of a worker count as left by a dead one, in doubt where that is possible."""
        for request_id, generation in sorted(runs):
            row = self.rows.get(request_id)
            if row in self.own_claims(worker_id) and row.generation == generation:
                is_undone = row.effect_kind == "transactional"
                effect_at = row.effect_at if is_undone else row.effect_at or self.now_ms()
                given_up = row._replace(owner=worker_id + DISOWNED, effect_at=effect_at)
                self._write(row, given_up, worker_id)

    def mark_unbegun(self, worker_id: str, runs: Sequence[tuple[str, int]]) -> None:
        """Let claims of a worker count as those of marked runs before their effect."""
        for request_id, generation in sorted(runs):
            row = self.rows.get(request_id)
            is_it = row in self.own_claims(worker_id) and row.generation == generation
            if row is not None and is_it and row.effect_kind == "external":
                self._write(row, row._replace(effect_kind="marked", effect_at=None), worker_id)

    def unpublished(self, limit: int, older_than_ms: int, within_ms: int = EVER_MS) -> list[Row]:
        """Return rows whose state no status was confirmed for, the oldest first."""
        until, since = self.now_ms() - older_than_ms, self.now_ms() - within_ms
        found = [
            row
            for row in self.rows.values()
            if row.published_at is None
            and row.state != JournalState.CLAIMED
            and since <= (row.finished_at or 0) <= until
        ]
        return sorted(found, key=lambda row: row.finished_at or 0)[:limit]

    # republishing --------------------------------------------------------------------------

    def take_republication(self, worker_id: str, run_id: str) -> WhoseTurn:
        """Return whose turn it is to tell the endings again to this start of Redis."""
        holder = self._republishing
        if run_id in holder.served:
            return WhoseTurn.DONE
        if holder.worker_id not in ("", worker_id) and self.lives(holder.worker_id):
            return WhoseTurn.OTHERS
        self._republishing = replace(holder, worker_id=worker_id)
        return WhoseTurn.MINE

    def end_republication(self, worker_id: str, run_id: str | None) -> bool:
        """Give the turn back."""
        if self._republishing.worker_id != worker_id:
            return False
        self._republishing = self._republishing.released(served=run_id)
        return True

    def has_served(self, run_id: str) -> bool:
        """Whether the endings were told again to this start of Redis."""
        return run_id in self._republishing.served

    def endings(self) -> list[Row]:
        """Return every row that has ended."""
        return [row for row in self.rows.values() if row.state != JournalState.CLAIMED]
