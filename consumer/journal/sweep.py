"""What a peer does for others: claims of dead workers, and states that nobody was told.

A sweep has three parts: find claims whose owner has no live lease, decide what becomes of each, and
write that under the same condition again. Today there is one decision: in doubt.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    exists,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from consumer.journal import clock
from consumer.journal.batch import RUNS
from consumer.journal.clock import now_ms
from consumer.journal.history import ROW_COLUMNS, same_request
from consumer.journal.records import WORKER_DIED, Row, State
from consumer.journal.tables import request, worker

# Spelled out and not a parameter: SQLite takes a partial index only where the text itself shows
# that it may.
_CLAIMED: ColumnElement[str] = literal_column(f"'{State.CLAIMED.value}'")
_MESSAGE = "the worker died during the run; whether the effect happened is not known"


def sweep_dead_claims(
    connection: Connection, group: str, limit: int, *, worker_id: str
) -> list[Row]:
    """Put claims of workers without a live lease in doubt; return their rows.

    Args:
        worker_id: who sweeps. With its own lease over, it does nothing: what kept it from renewing
            may have kept all from it, and their claims are alive.
    """
    names = {"this_group": group, "most": limit, "this_worker": worker_id}
    found = connection.execute(_DEAD, names).all()
    if not found:
        return []
    rows = sorted((group, request_id, generation) for request_id, generation in found)
    parameters = {
        **RUNS.load(connection, rows),
        "to_state": State.IN_DOUBT.value,
        "to_code": WORKER_DIED,
        "to_message": _MESSAGE,
    }
    answers = connection.execute(_end_dead(connection.dialect.name), parameters).all()
    return [Row(*answer) for answer in answers]


def unpublished(connection: Connection, group: str, limit: int, older_than_ms: int) -> list[Row]:
    """Return rows whose state no status was confirmed for, the oldest first."""
    parameters = {"this_group": group, "most": limit, "age": older_than_ms}
    return [Row(*answer) for answer in connection.execute(_UNTOLD, parameters).all()]


def _claimed_by_the_dead() -> ColumnElement[bool]:
    """Return the condition that a claim's owner has no lease, or one that is over."""
    lives = exists().where(worker.c.worker_id == request.c.owner, worker.c.lease_until > now_ms())
    return and_(request.c.state == _CLAIMED, ~lives)


def _late() -> ColumnElement[bool]:
    """Return the condition that the sweeper's own lease is over."""
    mine = worker.alias("mine")
    return exists().where(
        mine.c.worker_id == bindparam("this_worker"), mine.c.lease_until <= now_ms()
    )


def _find_dead() -> Select[Any]:
    # What another sweep has locked is left to it. SQLite has one writer and needs no locks.
    return (
        select(request.c.request_id, request.c.generation)
        .where(request.c.group == bindparam("this_group"), _claimed_by_the_dead(), ~_late())
        .order_by(request.c.owner, request.c.request_id)
        .limit(bindparam("most"))
        .with_for_update(of=request, skip_locked=True)
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


_DEAD = _find_dead()
_UNTOLD = _find_untold()


@lru_cache
def _end_dead(dialect: str) -> ReturningUpdate[Any]:
    batch = RUNS.source(dialect)
    return (
        update(request)
        .where(
            same_request(batch),
            request.c.generation == batch.c.generation,
            # The lease again, in this statement: its owner may have renewed it since.
            _claimed_by_the_dead(),
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
