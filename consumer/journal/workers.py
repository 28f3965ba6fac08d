"""The workers of a group that have a lease, over or not, and the claims that a dead one has left.

A worker that stops cleanly takes its lease along. One that was killed leaves it, until `prune`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, func, select

from consumer.journal.clock import now_ms, once
from consumer.journal.group_journal import GroupJournal
from consumer.journal.open_requests import open_requests, require_complete
from consumer.journal.state_literals import CLAIMED
from consumer.journal.tables import worker


class RegisteredWorker(NamedTuple):
    """A worker and its lease.

    Args:
        lease_left_ms: negative since it is over.
    """

    worker_id: str
    started_at: int
    lease_left_ms: int


class HeldClaims(NamedTuple):
    """Claims of one worker on one topic."""

    topic: str
    requests: int
    oldest_ms: int


class Workers(GroupJournal):
    """The workers of one group; see `GroupJournal`."""

    def registered(self, limit: int) -> list[RegisteredWorker]:
        """Return those whose leases end last, at most `limit`."""
        given = {"this_group": self._group, "most": limit}
        with self._session.transaction(read_only=True) as connection:
            return [RegisteredWorker(*one) for one in connection.execute(_REGISTERED, given)]

    def claims_of(self, worker_id: str, limit: int) -> list[HeldClaims]:
        """Return the claims of a worker by topic; of more than `limit`, only so many are counted.

        For dead workers: while a long snapshot is open, the index keeps all that a living one ever
        had (`dead_claims`).

        Raises:
            JournalUnavailable: ask again; it may take too long.
        """
        given = {"this_group": self._group, "whose": worker_id, "most": limit}
        with self._session.transaction(read_only=True) as connection:
            require_complete(connection)
            statement = _claims(self._session.dialect)
            return [HeldClaims(*one) for one in connection.execute(statement, given)]


_REGISTERED = (
    select(worker.c.worker_id, worker.c.started_at, worker.c.lease_until - now_ms())
    .where(worker.c.group == bindparam("this_group"))
    .order_by(worker.c.lease_until.desc(), worker.c.worker_id)
    .limit(bindparam("most"))
)


@lru_cache
def _claims(dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    few = (
        select(rows.c.topic, rows.c.claimed_at)
        .where(
            rows.c.group == bindparam("this_group"),
            rows.c.owner == bindparam("whose"),
            rows.c.state == CLAIMED,
        )
        .limit(bindparam("most"))
        .subquery("few")
    )
    return (
        select(few.c.topic, func.count(), once() - func.min(few.c.claimed_at))
        .group_by(few.c.topic)
        .order_by(few.c.topic)
    )
