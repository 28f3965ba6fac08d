"""Leases that end too late, so that no ordinary sweep finds the claims of a dead worker.

A database's clock that was set back leaves the lease of a dead worker as far ahead as the clock
went back, and its claims wait for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Update, bindparam, select, update

from consumer.journal.clock import now_ms
from consumer.journal.tables import worker


class FarLease(NamedTuple):
    """A lease that ends later than any renewal by now can have said.

    Args:
        lease_until: epoch ms.
    """

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
