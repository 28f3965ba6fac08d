"""Leases: how peers know that a worker lives, by the database's clock only.

A database's clock that was set back leaves the lease of a dead worker as far ahead as the clock
went back, and its claims wait for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Select,
    Update,
    bindparam,
    delete,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.dml import ReturningInsert

from consumer.journal.clock import now_ms
from consumer.journal.group_journal import GroupJournal
from consumer.journal.losses.republish import turn_name
from consumer.journal.tables import meta, worker
from feedback.sql.inserting import insert_into


class FarLease(NamedTuple):
    """A lease that ends later than any renewal by now can have said."""

    worker_id: str
    lease_until: int


def find_far_leases(connection: Connection, group: str, *, ahead_ms: int) -> list[FarLease]:
    """Return the leases that end more than `ahead_ms` from now."""
    parameters = {"this_group": group, "ahead": ahead_ms}
    return [FarLease(*answer) for answer in connection.execute(_FAR, parameters).all()]


def end_leases(connection: Connection, group: str, leases: Iterable[FarLease]) -> int:
    """End leases that were not renewed meanwhile; return how many were ended."""
    ended = 0
    for one in leases:
        parameters = {
            "this_group": group,
            "that_worker": one.worker_id,
            "until": one.lease_until,
        }
        ended += connection.execute(_END_LEASE, parameters).rowcount
    return ended


def _far() -> Select[Any]:
    return select(worker.c.worker_id, worker.c.lease_until).where(
        worker.c.group == bindparam("this_group"),
        worker.c.lease_until > now_ms() + bindparam("ahead"),
    )


def _end_lease() -> Update:
    return (
        update(worker)
        .where(
            worker.c.group == bindparam("this_group"),
            worker.c.worker_id == bindparam("that_worker"),
            worker.c.lease_until == bindparam("until"),
        )
        .values(lease_until=now_ms())
    )


_FAR = _far()
_END_LEASE = _end_lease()


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """When a lease was written and until when it holds, both by the database's clock."""

    now: int
    lease_until: int


class Leases(GroupJournal):
    """Keeps one worker's lease alive; see `GroupJournal`."""

    def __init__(
        self, url: str, *, group: str, worker_id: str, statement_timeout_s: float = 10.0
    ) -> None:
        super().__init__(url, group=group, statement_timeout_s=statement_timeout_s)
        self._knows_timeline = self._session.dialect == "postgresql"
        self._names = {"this_worker": worker_id, "this_group": group}

    def register(self, lease_s: float) -> LeaseTimes:
        """Begin the lease, or take it up again."""
        lease_ms = _milliseconds(lease_s)
        with self._session.transaction() as connection:
            statement = _register(self._session.dialect)
            until = connection.execute(statement, {**self._names, "lease": lease_ms}).scalar_one()
        return LeaseTimes(until - lease_ms, until)

    def renew(self, lease_s: float) -> LeaseTimes | None:
        """Extend the lease from now on; None when its row is gone: then register again.

        A lease that was over is extended as well: a claim that was swept meanwhile is protected by
        its generation, not by the lease (docs: How it works).
        """
        lease_ms = _milliseconds(lease_s)
        # Over a slow network three round trips may take as long as a lease. A renewal that a crash
        # of the database forgets costs a sweep, which generations make harmless.
        with self._session.transaction(alone=True) as connection:
            until = connection.execute(_RENEW, {**self._names, "lease": lease_ms}).scalar()
        return None if until is None else LeaseTimes(until - lease_ms, until)

    def is_first_worker(self) -> bool:
        """Whether no worker of the group has told a heartbeat before."""
        with self._session.transaction(read_only=True) as connection:
            found = connection.execute(_EARLIER, {"turn": turn_name(self._names["this_group"])})
            return found.first() is None

    def timeline(self) -> int | None:
        """Return on which timeline the PostgreSQL writes that this lease is kept in.

        A promoted standby is on a higher one than the server that it followed. None on SQLite, and
        where the server does not say.
        """
        if not self._knows_timeline:
            return None
        try:
            with self._session.transaction(read_only=True, alone=True) as connection:
                found: int | None = connection.execute(_TIMELINE).scalar()
        except DBAPIError:
            # A database that only speaks like PostgreSQL, or keeps its log elsewhere.
            self._knows_timeline = False
            return None
        return found

    def release(self) -> None:
        """End the lease: claims that this worker still has count as a dead worker's.

        Raises:
            JournalUnavailable: the outcome is unknown; the lease ends by itself.
        """
        with self._session.transaction() as connection:
            connection.execute(_RELEASE, self._names)


def _milliseconds(lease_s: float) -> int:
    return math.ceil(lease_s * 1000)


# A name of its log begins with it. A standby writes none.
_TIMELINE = text(
    """
SELECT CASE WHEN NOT pg_is_in_recovery()
    THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer END
"""
)
_EARLIER = select(meta.c.name).where(meta.c.name == bindparam("turn"))
_MINE = worker.c.worker_id == bindparam("this_worker")
_RENEW = (
    update(worker)
    .where(_MINE, worker.c.group == bindparam("this_group"))
    .values(lease_until=now_ms() + bindparam("lease"))
    .returning(worker.c.lease_until)
)
_RELEASE = delete(worker).where(_MINE, worker.c.group == bindparam("this_group"))


@lru_cache
def _register(dialect: str) -> ReturningInsert[Any]:
    clock = select(now_ms().label("now")).subquery("clock")
    values = {
        "worker_id": bindparam("this_worker"),
        "group": bindparam("this_group"),
        "lease_until": clock.c.now + bindparam("lease"),
        "started_at": clock.c.now,
    }
    # The WHERE: see `insert_into`.
    row = select(*values.values()).select_from(clock).where(literal_column("1 = 1"))
    begun = insert_into(worker, dialect).from_select(list(values), row)
    return begun.on_conflict_do_update(
        index_elements=[worker.c.worker_id], set_={"lease_until": begun.excluded.lease_until}
    ).returning(worker.c.lease_until)
