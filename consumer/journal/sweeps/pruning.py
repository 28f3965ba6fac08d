"""Deletes rows that ended long ago, never before their deadline (docs: Tables)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    FromClause,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    select,
    text,
    tuple_,
)
from sqlalchemy.sql.dml import ReturningDelete

from consumer.journal import clock
from consumer.journal.batch import RUNS
from consumer.journal.claims.forgetting import remember
from consumer.journal.records import JournalState
from consumer.journal.tables import DEAD, request, run, worker
from feedback.records.dead_letter_topics import dead_letter_topic

# An unresolved doubt waits for a person, however long that takes.
PRUNED_STATES = (
    JournalState.SUCCEEDED,
    JournalState.FAILED,
    JournalState.EXPIRED,
    JournalState.SKIPPED,
)


@dataclass(frozen=True, slots=True)
class PrunedRows:
    """How many rows were deleted: requests, runs of their history, and workers long gone."""

    requests: int
    runs: int
    workers: int


class LetteredTopics(NamedTuple):
    """Of which topics a failure becomes a dead letter.

    Args:
        by_default: whether it does so of all that are not named.
        others: topics of which it is the other way round.
    """

    by_default: bool = True
    others: frozenset[str] = frozenset()


ALL_LETTERED = LetteredTopics()


def prune(
    connection: Connection,
    group: str,
    *,
    retention_ms: int,
    limit: int,
    lettered: LetteredTopics,
) -> PrunedRows:
    """Delete at most `limit` requests, the oldest deadlines first, and all that belongs to them.

    How far is forgotten is kept in the same transaction: see `consumer.journal.claims.forgetting`.
    """
    parameters = {"this_group": group, "retention": retention_ms, "most": limit}
    waits = and_(_DEAD, _is_lettered(lettered, group))
    found = connection.execute(_OLD.where(~waits), parameters).all()
    workers = connection.execute(_GONE_WORKERS, parameters).rowcount
    if not found:
        return PrunedRows(0, 0, workers)
    dialect = connection.dialect.name
    names = sorted((group, request_id, generation) for request_id, generation in found)
    batch = RUNS.load(connection, names)
    deleted = connection.execute(_delete_requests(dialect), batch).all()
    deadlines = {request_id: deadline_at for request_id, *_, deadline_at in deleted}
    batch = RUNS.load(connection, sorted((group, request_id, 0) for request_id in deadlines))
    runs = connection.execute(_delete_runs(dialect), batch).all()
    remember(connection, group, [(*where, deadline_at) for _, *where, deadline_at in deleted])
    remember(connection, group, [(*where, deadlines[name]) for name, *where in runs])
    return PrunedRows(len(deleted), len(runs), workers)


def _find_old() -> Select[Any]:
    longest_ago = clock.once() - bindparam("retention")
    return (
        select(request.c.request_id, request.c.generation)
        .where(
            request.c.group == bindparam("this_group"),
            request.c.deadline_at <= longest_ago,
            request.c.finished_at <= longest_ago,
            request.c.state.in_([state.value for state in PRUNED_STATES]),
            # A row that still waits for the record of its outcome would have none.
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


def _is_lettered(lettered: LetteredTopics, group: str) -> ColumnElement[bool]:
    is_other = request.c.topic.in_(sorted(lettered.others))
    # There are no dead letters of dead letters.
    is_letter = request.c.topic.endswith(dead_letter_topic("", group), autoescape=True)
    return and_(~is_letter, ~is_other if lettered.by_default else is_other)


_OLD = _find_old()
_DEAD = text(DEAD)
_GONE_WORKERS = _gone_workers()


@lru_cache
def _delete_requests(dialect: str) -> ReturningDelete[Any]:
    named = select(*_key(RUNS.source(dialect)))
    return (
        delete(request)
        .where(tuple_(request.c.group, request.c.request_id).in_(named))
        .returning(*_where(request), request.c.deadline_at)
    )


@lru_cache
def _delete_runs(dialect: str) -> ReturningDelete[Any]:
    named = select(*_key(RUNS.source(dialect)))
    key = tuple_(run.c.group, run.c.request_id)
    return delete(run).where(key.in_(named)).returning(*_where(run))


def _where(table: Table) -> tuple[ColumnElement[Any], ...]:
    return tuple(table.c[name] for name in ("request_id", "topic", "partition", "offset"))


def _key(batch: FromClause) -> tuple[ColumnElement[str], ColumnElement[str]]:
    return batch.c.group, batch.c.request_id
