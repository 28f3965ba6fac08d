"""The journal as a worker's sweeper sees it: rows that nobody goes on with, and their ends."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from consumer.journal.batch import SHAPES
from consumer.journal.doubts import DoubtCount, count_doubts
from consumer.journal.errors import DataRefused
from consumer.journal.group_journal import GroupJournal
from consumer.journal.history import read_rows
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.leases import FarLease, end_leases, find_far_leases
from consumer.journal.losses.catching_up import catch_up
from consumer.journal.losses.told_rule import ToldRun
from consumer.journal.open_requests import (
    FIRST,
    begin_look,
    end_look,
    is_complete,
    look_through,
)
from consumer.journal.pacing import EVER_MS
from consumer.journal.records import DeadEnd, OverdueRetry, Row
from consumer.journal.sweeps import dead_claims
from consumer.journal.sweeps.dead_claims import UnhandledRequest, find_unhandled
from consumer.journal.sweeps.gone_owners import GoneOwners
from consumer.journal.sweeps.pruning import ALL_LETTERED, LetteredTopics, PrunedRows, prune
from consumer.journal.sweeps.retrying import (
    FROM_THE_OLDEST,
    DueCursor,
    end_retries,
    find_overdue,
)
from consumer.journal.sweeps.sweep import end_dead, take_turn, unpublished
from feedback.clock import monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.journal")


class SweptJournal(GroupJournal):
    """Finds and ends rows of workers that are gone; see `GroupJournal`.

    Args:
        worker_id: who sweeps; one for the life of a worker.
        outcome_topics: those whose requests wait for the record of their outcome once they have
            ended, see `consumer.journal.owed_rows`.
    """

    _shapes = SHAPES

    def __init__(
        self,
        url: str,
        *,
        group: str,
        worker_id: str,
        statement_timeout_s: float = 10.0,
        outcome_topics: Collection[str] = (),
    ) -> None:
        super().__init__(url, group=group, statement_timeout_s=statement_timeout_s)
        self._worker_id = worker_id
        self._outcome_topics = outcome_topics
        self._gone: dict[frozenset[str], GoneOwners] = {}

    def find_open_requests(self) -> None:
        """Look through all requests for the open ones, where the server has forgotten these.

        One worker at a time does; it reads the whole table once (docs: How fast).
        """
        with self._session.transaction(read_only=True) as connection:
            if is_complete(connection):
                return
        with self._session.transaction() as connection:
            look = begin_look(connection, uuid.uuid4().hex)
        if look is None:
            return
        began_s, found = monotonic_s(), 0
        last: tuple[int, int] | None = FIRST
        while last is not None:
            with self._session.transaction() as connection:
                looked = look_through(connection, look, last)
            found, last = found + looked.found, looked.last
        with self._session.transaction() as connection:
            end_look(connection, look)
        log.info("open_requests.found", requests=found, seconds=round(monotonic_s() - began_s, 3))

    def rows(self, request_ids: Collection[str]) -> list[Row]:
        """Return the rows of those requests that have one."""
        with self._session.transaction(read_only=True) as connection:
            return [*read_rows(connection, self._group, request_ids)[0].values()]

    def catch_up(self, runs: Sequence[ToldRun]) -> list[Row]:
        """Bring rows forward that are behind their statuses; return them.

        Claims of workers without a live lease as well: the status is later than they are. A run
        that the database refuses hinders no other.
        """
        try:
            return self._catch_up(runs)
        except DataRefused as refused:
            if len(runs) > 1:
                half = len(runs) // 2
                return [*self.catch_up(runs[:half]), *self.catch_up(runs[half:])]
            bare = runs[0].cleaned()
            if bare != runs[0]:
                return self.catch_up([bare])
            log.error("run.refused", request_id=bare.request_id, reason=refused.reason)
            return []

    def _catch_up(self, runs: Sequence[ToldRun]) -> list[Row]:
        with self._session.transaction() as connection:
            return catch_up(self._writer_on(connection), runs, may_overwrite_claims=True)

    def _writer_on(self, connection: Connection) -> JournalWriter:
        return JournalWriter(
            connection=connection,
            group=self._group,
            worker_id=self._worker_id,
            outcome_topics=self._outcome_topics,
        )

    def sweep_is_due(self, every_ms: int) -> bool:
        """Whether this worker is the one to sweep now: one of the group is, each `every_ms`."""
        with self._session.transaction() as connection:
            return take_turn(connection, f"sweep:{self._group}", every_ms)

    def dead_claims(
        self, topics: Collection[str], limit: int, *, after: tuple[str, str] = dead_claims.FIRST
    ) -> list[Row]:
        """Return claims on these topics whose owner has no live lease; nothing is changed.

        With this worker's own lease over there are none: the outage that kept it from renewing may
        have kept all others from it, and their claims are alive.

        Args:
            topics: those that this worker has handlers for, so that it knows their policy.
            after: owner and request of the last one of the page before.
        """
        with self._session.transaction(read_only=True) as connection:
            return dead_claims.find(
                connection,
                self._group,
                topics=topics,
                limit=limit,
                worker_id=self._worker_id,
                gone=self._gone.setdefault(frozenset(topics), GoneOwners()),
                after=after,
            )

    def unhandled(
        self, topics: Collection[str], limit: int, late_ms: int
    ) -> list[UnhandledRequest]:
        """Return claims of dead workers and retries on any other topic than these.

        None with this worker's own lease over, as for `dead_claims`.

        Args:
            late_ms: how long after its deadline it is late.
        """
        with self._session.transaction(read_only=True) as connection:
            return find_unhandled(
                connection,
                self._group,
                topics=topics,
                limit=limit,
                late_ms=late_ms,
                worker_id=self._worker_id,
            )

    def far_leases(self, ahead_ms: int) -> list[FarLease]:
        """Return the group's leases that end more than `ahead_ms` from now."""
        with self._session.transaction(read_only=True) as connection:
            return find_far_leases(connection, self._group, ahead_ms=ahead_ms)

    def end_leases(self, leases: Sequence[FarLease]) -> int:
        """End leases that are still as they were seen; return how many were ended."""
        with self._session.transaction() as connection:
            return end_leases(connection, self._group, leases)

    def end_dead_claims(self, ends: Sequence[DeadEnd]) -> list[Row]:
        """End claims of dead workers; return the rows of those that still were theirs."""
        with self._session.transaction() as connection:
            return end_dead(self._writer_on(connection), ends)

    def unpublished(
        self,
        limit: int,
        older_than_ms: int,
        *,
        within_ms: int = EVER_MS,
        after: tuple[int, str] = (0, ""),
    ) -> list[Row]:
        """Return rows whose state no status was confirmed for, the oldest first.

        Args:
            older_than_ms: how long ago, by the database's clock, they reached that state.
            within_ms: how long ago at most.
            after: `finished_at` and id of the last of the page before.
        """
        with self._session.transaction(read_only=True) as connection:
            return unpublished(connection, self._group, limit, older_than_ms, within_ms, after)

    def overdue_retries(
        self,
        topics: Collection[str],
        limit: int,
        older_than_ms: int,
        *,
        cursor: DueCursor = FROM_THE_OLDEST,
        within_ms: int = EVER_MS,
    ) -> list[OverdueRetry]:
        """Return requests on these topics whose next run was due so long ago, the oldest first.

        Args:
            cursor: behind which to begin.
            within_ms: how long ago it was due at most.
        """
        with self._session.transaction(read_only=True) as connection:
            return find_overdue(
                connection,
                self._group,
                topics=topics,
                limit=limit,
                older_than_ms=older_than_ms,
                cursor=cursor,
                within_ms=within_ms,
            )

    def end_retries(self, rows: Sequence[Row]) -> list[Row]:
        """End retries that will have no next run; return the rows as they are now.

        Past its deadline it is EXPIRED; before it, its payload must be gone.
        """
        with self._session.transaction() as connection:
            return end_retries(self._writer_on(connection), rows)

    def prune(
        self, retention_ms: int, limit: int, *, lettered: LetteredTopics = ALL_LETTERED
    ) -> PrunedRows:
        """Forget requests that ended, and whose deadline was over, longer ago than this.

        Args:
            retention_ms: how long they are kept after the later of the two.
            limit: the most requests to delete in this call; call again while it deletes as many.
            lettered: whose failures are kept until their dead letter is written.
        """
        with self._session.transaction() as connection:
            return prune(
                connection,
                self._group,
                retention_ms=retention_ms,
                limit=limit,
                lettered=lettered,
            )

    def doubts(self, every_ms: int) -> list[DoubtCount] | None:
        """Count the group's open doubts by topic; None where that is not this worker's turn.

        Args:
            every_ms: how often one of the group's workers counts.

        Raises:
            JournalUnavailable: the database is away; after a turn that was taken, nobody counts in
                it.
        """
        with self._session.transaction() as connection:
            if not take_turn(connection, f"doubts:{self._group}", every_ms):
                return None
        with self._session.transaction(read_only=True) as connection:
            return count_doubts(connection, self._group)
