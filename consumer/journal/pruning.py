"""Forgets what ended long ago; never what is not past its deadline (contract, section 8)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    FromClause,
    Select,
    bindparam,
    delete,
    func,
    select,
    tuple_,
)
from sqlalchemy.sql.dml import ReturningDelete

from consumer.journal import clock
from consumer.journal.batch import RUNS
from consumer.journal.records import State
from consumer.journal.tables import request, run, worker

# An unresolved doubt waits for a person, however long that takes.
PRUNED_STATES = (State.SUCCEEDED, State.FAILED, State.EXPIRED, State.SKIPPED)


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows were deleted: requests, runs of their history, and workers long gone."""

    requests: int
    runs: int
    workers: int


def prune(connection: Connection, group: str, *, retention_ms: int, limit: int) -> Pruned:
    """Delete at most `limit` requests, the oldest deadlines first, and all that belongs to them."""
    parameters = {"this_group": group, "retention": retention_ms, "most": limit}
    found = connection.execute(_OLD, parameters).all()
    workers = connection.execute(_GONE_WORKERS, parameters).rowcount
    if not found:
        return Pruned(0, 0, workers)
    dialect = connection.dialect.name
    names = sorted((group, request_id, generation) for request_id, generation in found)
    batch = RUNS.load(connection, names)
    deleted = connection.execute(_delete_requests(dialect), batch).all()
    batch = RUNS.load(connection, sorted((group, request_id, 0) for (request_id,) in deleted))
    runs = connection.execute(_delete_runs(dialect), batch).rowcount
    return Pruned(len(deleted), runs, workers)


def _find_old() -> Select[Any]:
    longest_ago = clock.once() - bindparam("retention")
    return (
        select(request.c.request_id, request.c.generation)
        .where(
            request.c.group == bindparam("this_group"),
            request.c.deadline_at <= longest_ago,
            request.c.finished_at <= longest_ago,
            request.c.state.in_([state.value for state in PRUNED_STATES]),
            # What still waits for the record of its outcome would have none.
            func.coalesce(request.c.outcome_generation, request.c.generation)
            >= request.c.generation,
        )
        .order_by(request.c.deadline_at)
        .limit(bindparam("most"))
        # Locked, so that a resolution or redrive in this moment keeps its row.
        .with_for_update(of=request, skip_locked=True)
    )


def _gone_workers() -> Delete:
    # Its last claims stay assigned to it by name: a missing worker counts as dead.
    return delete(worker).where(
        worker.c.group == bindparam("this_group"),
        worker.c.lease_until <= clock.once() - bindparam("retention"),
    )


_OLD = _find_old()
_GONE_WORKERS = _gone_workers()


@lru_cache
def _delete_requests(dialect: str) -> ReturningDelete[Any]:
    named = select(*_key(RUNS.source(dialect)))
    return (
        delete(request)
        .where(tuple_(request.c.group, request.c.request_id).in_(named))
        .returning(request.c.request_id)
    )


@lru_cache
def _delete_runs(dialect: str) -> Delete:
    named = select(*_key(RUNS.source(dialect)))
    return delete(run).where(tuple_(run.c.group, run.c.request_id).in_(named))


def _key(batch: FromClause) -> tuple[ColumnElement[str], ColumnElement[str]]:
    return batch.c.group, batch.c.request_id
