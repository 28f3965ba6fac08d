"""The table of unfinished requests, as the wait topics have them.

Records and the position behind them are one transaction: a kill loses nothing and repeats nothing.
An older record never overwrites a newer one, nor brings back a request that a tombstone has ended:
rows are compared by the offset of their record, and offsets behind the position are not read again.

Times to compare with are the database's alone. The expiry itself was written by the clock of the
worker that has read the request; one that is off by a minute makes requests expire a minute early
or late, and never while their worker lives.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, bindparam, func, select

from consumer.features.waits.registry import bulk_writes
from consumer.features.waits.registry.partition_leases import EXPIRIES, PartitionLeases, here
from consumer.features.waits.registry.wait_rows import (
    ExpiryRow,
    OpenedPartition,
    PartitionContent,
    UnfinishedRow,
    WaitChanges,
)
from consumer.journal import clock
from consumer.journal.clock import now_ms
from consumer.journal.group_journal import GroupJournal
from consumer.journal.schema import check_version
from consumer.journal.wait_tables import expiry, partition, wait
from feedback.kafka.values import Partition

HOLDERS_AT_ONCE = 1000


class WaitTable(GroupJournal):
    """The registry's table, as one of its owners works on it; see `GroupJournal`."""

    _shapes = bulk_writes.BATCHES

    def __init__(
        self,
        url: str,
        *,
        group: str,
        owner: str,
        lease_s: float,
        statement_timeout_s: float = 10.0,
    ) -> None:
        super().__init__(url, group=group, statement_timeout_s=statement_timeout_s)
        self._leases = PartitionLeases(group, owner, math.ceil(lease_s * 1000))

    def require_current(self) -> None:
        """Return when the tables are those of this program.

        Raises:
            JournalVersionError: there are none, older or newer ones.
            JournalUnavailable: the database is away.
        """
        with self._session.transaction(read_only=True) as connection:
            check_version(connection)

    def topics(self) -> list[str]:
        """Return the wait topics of which a registry has read a partition."""
        with self._session.transaction(read_only=True) as connection:
            found = connection.execute(_TOPICS, {"this_group": self._group})
            return list(found.scalars())

    def take(self, place: Partition, topic_id: str) -> OpenedPartition | None:
        """Take a partition; None while it is another's. See `PartitionLeases.take`."""
        with self._session.transaction() as connection:
            return self._leases.take(connection, place, topic_id)

    def count_leases(self, places: Collection[Partition]) -> int:
        """Return how many of these partitions have an owner."""
        with self._session.transaction(read_only=True) as connection:
            return sum(self._leases.is_leased(connection, place) for place in places)

    def release(self, places: Collection[Partition]) -> None:
        with self._session.transaction() as connection:
            for place in places:
                self._leases.release(connection, place)

    def apply(self, place: Partition, changes: WaitChanges, *, read_to: tuple[int, int]) -> int:
        """Write the changes of a partition, and its position; return now, in epoch ms."""
        with self._session.transaction() as connection:
            now = self._leases.hold(connection, place, read_to=read_to)
            self._write(connection, place, changes)
        return now

    def due_holders(self, place: Partition) -> list[str]:
        """Return the holders of expired requests; some of them, where they are very many."""
        with self._session.transaction(read_only=True) as connection:
            return list(connection.execute(_DUE_HOLDERS, self._leases.named(place)).scalars())

    def due(self, place: Partition, holders: Collection[str], *, limit: int) -> list[UnfinishedRow]:
        """Return requests past their expiry with one of these holders, in the records' order."""
        given = {**self._leases.named(place), "holders": list(holders), "most": limit}
        with self._session.transaction(read_only=True) as connection:
            found = [UnfinishedRow(*one) for one in connection.execute(_DUE, given)]
        return sorted(found, key=lambda one: one.offset)

    def count_due(self, place: Partition, holders: Collection[str]) -> int:
        """Return how many are past their expiry and have one of these holders."""
        given = {**self._leases.named(place), "holders": list(holders)}
        with self._session.transaction(read_only=True) as connection:
            return int(connection.execute(_COUNT_DUE, given).scalar_one())

    def begin(
        self,
        place: Partition,
        rows: Sequence[UnfinishedRow],
        *,
        position: int,
        letter_partition: int,
        letter_mark: int,
    ) -> list[ExpiryRow]:
        """Take requests out of the table, on their way to the dead letters."""
        with self._session.transaction() as connection:
            now = self._leases.hold(connection, place, read_to=(position, position))
            begun = [ExpiryRow(*one[:5], now, letter_partition, letter_mark) for one in rows]
            bulk_writes.delete_waits(connection, self._group, place, _behind(rows))
            bulk_writes.write_expiries(connection, self._group, place, begun)
        return begun

    def forget(self, place: Partition, rows: Sequence[UnfinishedRow], *, position: int) -> None:
        """Forget requests whose records are gone."""
        with self._session.transaction() as connection:
            self._leases.hold(connection, place, read_to=(position, position))
            bulk_writes.delete_waits(connection, self._group, place, _behind(rows))

    def expiries(self, place: Partition) -> list[ExpiryRow]:
        with self._session.transaction(read_only=True) as connection:
            found = connection.execute(EXPIRIES, self._leases.named(place))
            return [ExpiryRow(*one) for one in found]

    def waiting_again(self, place: Partition, request_ids: Collection[str]) -> set[str]:
        """Return which of these have a wait record again."""
        given = {**self._leases.named(place), "names": list(request_ids)}
        with self._session.transaction(read_only=True) as connection:
            return set(connection.execute(_WAITING_AGAIN, given).scalars())

    def finish(self, place: Partition, request_ids: Sequence[str], *, position: int) -> None:
        """Forget expiries: their letters and tombstones are written."""
        with self._session.transaction() as connection:
            self._leases.hold(connection, place, read_to=(position, position))
            bulk_writes.delete_expiries(connection, self._group, place, request_ids)

    def standing(self, places: Collection[Partition]) -> PartitionContent:
        waiting, since, now = 0, None, 0
        with self._session.transaction(read_only=True) as connection:
            for place in places:
                count, oldest, now = connection.execute(_STANDING, self._leases.named(place)).one()
                waiting += count
                since = oldest if since is None else min(since, oldest or since)
        return PartitionContent(waiting, 0 if since is None else max(0, now - since))

    def _write(self, connection: Connection, place: Partition, changes: WaitChanges) -> None:
        bulk_writes.write_waits(connection, self._group, place, changes.unfinished)
        if changes.ended:
            ends = changes.ended.items()
            bulk_writes.delete_waits(connection, self._group, place, ends)
            if connection.execute(_ANY_EXPIRY, self._leases.named(place)).first() is not None:
                bulk_writes.end_expiries(connection, self._group, place, ends)


def _behind(rows: Sequence[UnfinishedRow]) -> list[tuple[str, int]]:
    """Return names and the offsets right behind their records."""
    return [(one.request_id, one.offset + 1) for one in rows]


_TOPICS = (
    select(partition.c.wait_topic).where(partition.c.group == bindparam("this_group")).distinct()
)
_HERE, _MOVING = here(wait), here(expiry)
_IS_DUE = (*_HERE, wait.c.expires_at <= clock.once())
_HELD = wait.c.holder.in_(bindparam("holders", expanding=True))
_DUE_HOLDERS = select(wait.c.holder).where(*_IS_DUE).distinct().limit(HOLDERS_AT_ONCE)
_DUE = (
    select(*(wait.c[name] for name in UnfinishedRow._fields))
    .where(*_IS_DUE, _HELD)
    .order_by(wait.c.expires_at)
    .limit(bindparam("most"))
)
_COUNT_DUE = select(func.count()).select_from(wait).where(*_IS_DUE, _HELD)
_STANDING = select(func.count(), func.min(wait.c.written_at), now_ms()).where(*_HERE)
_ANY_EXPIRY = select(expiry.c.request_id).where(*_MOVING).limit(1)
_WAITING_AGAIN = select(wait.c.request_id).where(
    *_HERE, wait.c.request_id.in_(bindparam("names", expanding=True))
)
