"""Reading rows, locking them, and keeping a run before its row is overwritten."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Select,
    Table,
    Text,
    Update,
    and_,
    bindparam,
    func,
    insert,
    select,
    update,
)

from consumer.journal.batch import RUNS
from consumer.journal.clock import now_ms
from consumer.journal.records import JournalState, RetriedRuns, Row
from consumer.journal.tables import request, run


def row_columns(rows: Table) -> tuple[ColumnElement[Any], ...]:
    """Return the columns of `Row`, in the order of its fields."""
    return tuple(rows.c[name] for name in Row._fields)


ROW_COLUMNS = row_columns(request)


def same_request(batch: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row of the journal is the one that a row of a batch names."""
    return and_(
        request.c.group == batch.c.group,
        request.c.request_id == batch.c.request_id,
    )


def this_run() -> ColumnElement[bool]:
    """Return the condition that a row's last run is the one that the parameters name."""
    return and_(
        request.c.group == bindparam("this_group"),
        request.c.request_id == bindparam("this_request"),
        request.c.generation == bindparam("this_generation"),
    )


def same_run(batch: FromClause) -> ColumnElement[bool]:
    """Return the condition that a row of the journal is in the run that a row of a batch names."""
    return and_(same_request(batch), request.c.generation == batch.c.generation)


def update_runs(batch: FromClause, state: ColumnElement[str] | str) -> Update:
    """Return an update of the runs that a batch names, as far as they are in this state."""
    return update(request).where(same_run(batch), in_state(state))


def in_state(state: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Return the condition that a row named by a batch is in this state.

    It is written so that no planner takes the partial indexes for it: measured, PostgreSQL walked
    all claims, and their dead versions, for every batch instead of looking 64 rows up by their key.
    """
    return request.c.state.concat("") == state


def read_rows(
    connection: Connection, group: str, request_ids: Collection[str], *, lock: bool = False
) -> tuple[dict[str, Row], int]:
    """Return the rows of these requests by id, and the database's clock in epoch ms.

    Args:
        lock: whether the rows stay as they are until the transaction ends.
    """
    if not request_ids:
        return {}, 0
    parameters = RUNS.load(connection, [(group, name, 0) for name in sorted(request_ids)])
    answers = connection.execute(_read(connection.dialect.name, lock), parameters).all()
    rows = {answer[1]: Row(*answer[1:]) for answer in answers}
    return rows, max((answer[0] for answer in answers), default=0)


def keep_runs(
    connection: Connection,
    group: str,
    runs: Iterable[tuple[str, int]],
    by_whom: str,
    *,
    outcome: str | None = None,
    allowed_by: str | None = None,
) -> None:
    """Append runs to the history as they stand, just before their rows are overwritten.

    Args:
        runs: (request_id, generation), of rows that are locked.
        by_whom: who is about to overwrite them.
        outcome: why a run that has no end is followed by another; None: the row's state.
        allowed_by: by which `TakeoverKind`, or `AllowedBy`, it may be: the audit must not take it
            for a fault.
    """
    parameters = RUNS.load(connection, [(group, *name) for name in sorted(runs)])
    given = {"whom": by_whom, "given_outcome": outcome, "allowed": allowed_by}
    connection.execute(_keep(connection.dialect.name), {**parameters, **given})


def retried_runs(
    connection: Connection, group: str, request_ids: Collection[str]
) -> dict[tuple[str, int], RetriedRuns]:
    """Return the runs that failed as declared and were followed by another, by id and attempt."""
    if not request_ids:
        return {}
    parameters = RUNS.load(connection, [(group, name, 0) for name in sorted(request_ids)])
    answers = connection.execute(_count_retried(connection.dialect.name), parameters).all()
    return {
        (request_id, attempt): RetriedRuns(count, first_failed_at or 0)
        for request_id, attempt, count, first_failed_at in answers
    }


@lru_cache
def _count_retried(dialect: str) -> Select[Any]:
    batch = RUNS.source(dialect)
    of_batch = and_(run.c.group == batch.c.group, run.c.request_id == batch.c.request_id)
    return (
        select(run.c.request_id, run.c.attempt, func.count(), func.min(run.c.ended_at))
        .join_from(batch, run, of_batch)
        .where(run.c.outcome == JournalState.RETRYING.value)
        .group_by(run.c.request_id, run.c.attempt)
    )


@lru_cache
def _read(dialect: str, lock: bool) -> Select[Any]:
    batch = RUNS.source(dialect)
    # The clock is read row by row, so a verdict never rests on a time before the row was locked.
    statement = select(now_ms(), *ROW_COLUMNS).join_from(batch, request, same_request(batch))
    return statement.with_for_update(of=request) if lock else statement


@lru_cache
def _keep(dialect: str) -> Insert:
    batch = RUNS.source(dialect)
    named = ("group", "request_id", "generation", "attempt", "owner")
    placed = (*named, "topic", "partition", "offset", "claimed_at")
    copied = (*placed, "effect_kind", "effect_at", "in_doubt")
    as_it_stood = select(
        *(request.c[name] for name in copied),
        func.coalesce(request.c.finished_at, now_ms()),
        func.coalesce(bindparam("given_outcome", type_=Text()), request.c.state),
        bindparam("whom"),
        bindparam("allowed", type_=Text()),
    ).join_from(batch, request, same_run(batch))
    written = ("ended_at", "outcome", "by_whom", "allowed_by")
    return insert(run).from_select((*copied, *written), as_it_stood)
