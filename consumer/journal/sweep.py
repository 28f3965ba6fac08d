"""What a peer does for others: claims of dead workers, and states that nobody was told.

A sweep has three parts: find claims whose owner has no live lease, decide what becomes of each by
the handler's policy, and write that under the same condition again. Here are the first and the
last; `consumer/sweeper.py` decides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    cast,
    exists,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from consumer.journal import clock
from consumer.journal.clock import now_ms
from consumer.journal.history import ROW_COLUMNS
from consumer.journal.records import DeadEnd, Row, State
from consumer.journal.tables import NAME, meta, request, worker
from consumer.journal.takeover import owner_lives

# Spelled out and not a parameter: SQLite takes a partial index only where the text itself shows
# that it may.
_CLAIMED: ColumnElement[str] = literal_column(f"'{State.CLAIMED.value}'")


def take_turn(connection: Connection, name: str, every_ms: int) -> bool:
    """Whether the caller is the one whose turn it is: one of all callers is, each `every_ms`.

    Ten workers sweep as often as one does, and none of them has to be the one that lives.
    """
    parameters = {"this_name": name, "every": every_ms}
    if connection.execute(_NEXT_TURN, parameters).scalar() is not None:
        return True
    first = connection.execute(_first_turn(connection.dialect.name), {"this_name": name})
    return first.scalar() is not None


def find_dead(
    connection: Connection, group: str, *, topics: Collection[str], limit: int, worker_id: str
) -> list[Row]:
    """Return claims on `topics` of workers without a live lease; none while one's own is over."""
    parameters = {
        "this_group": group,
        "these_topics": sorted(topics),
        "most": limit,
        "this_worker": worker_id,
    }
    return [Row(*answer) for answer in connection.execute(_DEAD, parameters).all()]


def end_dead(
    connection: Connection, group: str, ends: Sequence[DeadEnd], *, worker_id: str
) -> list[Row]:
    """End claims of workers without a live lease; return the rows that were ended."""
    rows = []
    # Two sweeps that meet lock their rows in the same order.
    for end in sorted(ends, key=lambda one: one.request_id):
        parameters = {
            "this_group": group,
            "this_worker": worker_id,
            "this_request": end.request_id,
            "this_generation": end.generation,
            "to_state": end.state.value,
            "to_code": end.code,
            "to_message": end.message,
        }
        answer = connection.execute(_END_DEAD, parameters).one_or_none()
        if answer is not None:
            rows.append(Row(*answer))
    return rows


def unpublished(connection: Connection, group: str, limit: int, older_than_ms: int) -> list[Row]:
    """Return rows whose state no status was confirmed for, the oldest first."""
    parameters = {"this_group": group, "most": limit, "age": older_than_ms}
    return [Row(*answer) for answer in connection.execute(_UNTOLD, parameters).all()]


def _claimed_by_the_dead() -> ColumnElement[bool]:
    """Return the condition that a claim's owner has no lease, or one that is over."""
    return and_(request.c.state == _CLAIMED, ~owner_lives())


def _late() -> ColumnElement[bool]:
    """Return the condition that the sweeper's own lease is over."""
    mine = worker.alias("mine")
    return exists().where(
        mine.c.worker_id == bindparam("this_worker"), mine.c.lease_until <= now_ms()
    )


def _find_dead() -> Select[Any]:
    return (
        select(*ROW_COLUMNS)
        .where(
            request.c.group == bindparam("this_group"),
            _claimed_by_the_dead(),
            request.c.topic.in_(bindparam("these_topics", expanding=True)),
            ~_late(),
        )
        .order_by(request.c.owner, request.c.request_id)
        .limit(bindparam("most"))
    )


def _find_untold() -> Select[Any]:
    return (
        select(*ROW_COLUMNS)
        .where(
            request.c.group == bindparam("this_group"),
            request.c.published_at.is_(None),
            request.c.state != _CLAIMED,
            request.c.finished_at <= clock.once() - bindparam("age"),
        )
        .order_by(request.c.finished_at)
        .limit(bindparam("most"))
    )


def _end_dead() -> ReturningUpdate[Any]:
    return (
        update(request)
        .where(
            request.c.group == bindparam("this_group"),
            request.c.request_id == bindparam("this_request"),
            request.c.generation == bindparam("this_generation"),
            # The lease again, in this statement: its owner may have renewed it since.
            _claimed_by_the_dead(),
            ~_late(),
        )
        .values(
            state=bindparam("to_state"),
            code=bindparam("to_code"),
            message=bindparam("to_message"),
            finished_at=now_ms(),
            published_at=null(),
        )
        .returning(*ROW_COLUMNS)
    )


def _next_turn() -> ReturningUpdate[Any]:
    at = cast(meta.c.value, BigInteger)
    now = clock.once()
    # Also when the last turn lies in the future: a database whose clock was set back goes on.
    is_due = (at <= now - bindparam("every")) | (at > now)
    return (
        update(meta)
        .where(meta.c.name == bindparam("this_name"), is_due)
        .values(value=cast(now_ms(), NAME))
        .returning(meta.c.name)
    )


@lru_cache
def _first_turn(dialect: str) -> ReturningInsert[Any]:
    make = sqlite.insert if dialect == "sqlite" else postgresql.insert
    first = {"name": bindparam("this_name"), "value": cast(now_ms(), NAME)}
    return make(meta).values(first).on_conflict_do_nothing().returning(meta.c.name)


_DEAD = _find_dead()
_UNTOLD = _find_untold()
_END_DEAD = _end_dead()
_NEXT_TURN = _next_turn()
