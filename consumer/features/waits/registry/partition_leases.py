"""Whose each partition is, and how far it was read: a lease by the database's clock.

Every statement that changes rows of a partition is preceded, in its transaction, by one that finds
the partition's row still this owner's and locks it. So an owner that was paused, and whose
partition went to another meanwhile, changes nothing any more.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    bindparam,
    delete,
    literal_column,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import Insert

from consumer.features.waits.registry.wait_rows import ExpiryRow, OpenedPartition
from consumer.journal.clock import now_ms
from consumer.journal.wait_tables import expiry, partition, wait
from feedback.errors import NotAvailable
from feedback.kafka.values import Partition
from feedback.sql.inserting import insert_into


class LeaseLost(NotAvailable):
    """The partition is another registry's by now, or was read on by one."""


class PartitionLeases:
    """One registry as the owner of partitions.

    Args:
        lease_ms: how long a partition stays its own without a word.
    """

    def __init__(self, group: str, owner: str, lease_ms: int) -> None:
        self.group = group
        self._facts = {"whose": owner, "lease": lease_ms}
        self._lease_ms = lease_ms

    def named(self, place: Partition) -> dict[str, Any]:
        return {"this_group": self.group, "this_topic": place[0], "this_partition": place[1]}

    def take(
        self, connection: Connection, place: Partition, topic_id: str
    ) -> OpenedPartition | None:
        """Take a partition whose last owner is gone; None while it is another's.

        Args:
            topic_id: Kafka's id of the topic. Rows of another one by that name are forgotten.
        """
        named = self.named(place)
        given = {**named, "topic_id": topic_id}
        connection.execute(_first(connection.dialect.name), given)
        taken = connection.execute(_TAKE, {**named, **self._facts}).one_or_none()
        if taken is None:
            return None
        known, position = taken
        forgotten = 0
        if known != topic_id:
            forgotten = sum(
                connection.execute(one, named).rowcount for one in (_FORGET_WAITS, _FORGET_EXPIRIES)
            )
            connection.execute(_BEGIN_ANEW, given)
            position = 0
        expiries = connection.execute(EXPIRIES, named).all()
        return OpenedPartition(position, tuple(ExpiryRow(*one) for one in expiries), forgotten)

    def hold(self, connection: Connection, place: Partition, *, read_to: tuple[int, int]) -> int:
        """Hold the partition for another lease and note how far it was read; return now, in epoch
        ms of the database's clock.

        Args:
            read_to: the position that stands there, and the new one.

        Raises:
            LeaseLost: it is not this owner's, or stands elsewhere.
        """
        at, to = read_to
        given = {**self.named(place), **self._facts, "at_position": at, "to_position": to}
        until = connection.execute(_HOLD, given).scalar()
        if until is None:
            raise LeaseLost(f"partition {place[0]}-{place[1]} has another owner")
        return int(until) - self._lease_ms

    def is_leased(self, connection: Connection, place: Partition) -> bool:
        """Whether a partition has an owner whose lease is not over."""
        return connection.execute(_LEASED, self.named(place)).first() is not None

    def release(self, connection: Connection, place: Partition) -> None:
        """Let the next owner take it at once."""
        connection.execute(_RELEASE, {**self.named(place), **self._facts})


def here(table: Table) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of a table's rows of one partition; see `PartitionLeases.named`."""
    return (
        table.c.group == bindparam("this_group"),
        table.c.wait_topic == bindparam("this_topic"),
        table.c.partition == bindparam("this_partition"),
    )


_HERE = here(partition)
_MINE = (*_HERE, partition.c.owner == bindparam("whose"))
_LEASE = now_ms() + bindparam("lease")
_IS_FREE = or_(
    partition.c.owner.is_(None),
    partition.c.owner == bindparam("whose"),
    partition.c.lease_until <= now_ms(),
)
_LEASED = select(partition.c.owner).where(
    *_HERE, partition.c.owner.is_not(None), partition.c.lease_until > now_ms()
)
_TAKE = (
    update(partition)
    .where(*_HERE, _IS_FREE)
    .values(owner=bindparam("whose"), lease_until=_LEASE)
    .returning(partition.c.topic_id, partition.c.position)
)
_HOLD = (
    update(partition)
    .where(*_MINE, partition.c.position == bindparam("at_position"))
    .values(position=bindparam("to_position"), lease_until=_LEASE)
    .returning(partition.c.lease_until)
)
_BEGIN_ANEW = update(partition).where(*_HERE).values(topic_id=bindparam("topic_id"), position=0)
_RELEASE = update(partition).where(*_MINE).values(owner=None, lease_until=0)
_FORGET_WAITS = delete(wait).where(*here(wait))
_FORGET_EXPIRIES = delete(expiry).where(*here(expiry))
EXPIRIES = (
    select(*(expiry.c[name] for name in ExpiryRow._fields))
    .where(*here(expiry))
    .order_by(expiry.c.offset)
)


@lru_cache
def _first(dialect: str) -> Insert:
    values: dict[str, Any] = {
        "group": bindparam("this_group"),
        "wait_topic": bindparam("this_topic"),
        "partition": bindparam("this_partition"),
        "topic_id": bindparam("topic_id"),
        "position": literal_column("0"),
        "lease_until": literal_column("0"),
    }
    return insert_into(partition, dialect).values(values).on_conflict_do_nothing()
