"""Takeovers: going on with a request whose run has no end, within one transaction.

Rare, so row by row. Each row is locked, decided on by the pure rule, and written by a statement
that says the rule's conditions again: generation, state, the owner's lease, and the effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from consumer.journal.batch import RUNS
from consumer.journal.claims.claim_sql import EXTERNAL
from consumer.journal.claims.takeover_rule import TakeoverDecision, decide_takeover
from consumer.journal.clock import now_ms
from consumer.journal.errors import Contended
from consumer.journal.history import ROW_COLUMNS, retried_runs, this_run
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.records import (
    JournalState,
    RetriedRuns,
    Row,
    Run,
    Takeover,
    TakeoverKind,
    TakeoverResult,
    TakeoverResultKind,
)
from consumer.journal.tables import request, run, worker

_OURS = (TakeoverResultKind.GRANTED, TakeoverResultKind.MINE)


def take_over(
    writer: JournalWriter, wishes: Sequence[Takeover], *, held: Collection[Run]
) -> dict[Run, TakeoverResult]:
    """Carry takeovers out; return the result of each, by (request_id, generation) of the wish."""
    if not wishes:
        return {}
    results: dict[Run, TakeoverResult] = {}
    ids = {one.request_id for one in wishes}
    rows, _ = writer.read(ids, lock=True)
    # With the rows locked: the facts read from here on stay true until we write.
    lives = living(writer.connection, {row.owner for row in rows.values()})
    ended = _ended_runs(writer, ids)
    _, now = writer.read(ids)
    mine = set(held)
    for wish in wishes:
        row = rows.get(wish.request_id)
        decision = decide_takeover(
            wish,
            row,
            now,
            worker_id=writer.worker_id,
            owner_lives=row is not None and row.owner in lives,
            ended_runs={} if row is None else ended.get((row.request_id, row.attempt), {}),
            held=mine,
        )
        result = _carry_out(writer, wish, row, decision)
        if result.kind in _OURS and row is not None:
            known = retried_runs(writer.connection, writer.group, [row.request_id])
            result = replace(
                result, retried=known.get((row.request_id, row.attempt), RetriedRuns())
            )
        results[wish.request_id, wish.generation] = result
        mine.update(granted_names({(wish.request_id, wish.generation): result}))
    return results


def granted_names(results: Mapping[Run, TakeoverResult]) -> Iterator[Run]:
    """Yield (request_id, generation) of the runs that these takeovers gave us."""
    for result in results.values():
        if result.kind in _OURS and result.row is not None:
            yield result.row.request_id, result.row.generation


def owner_lives(rows: Table = request) -> ColumnElement[bool]:
    """Return the condition that a row's owner has a lease that is not over."""
    return exists().where(worker.c.worker_id == rows.c.owner, worker.c.lease_until > now_ms())


def _carry_out(
    writer: JournalWriter, wish: Takeover, row: Row | None, decision: TakeoverDecision
) -> TakeoverResult:
    write = partial(_written, writer, wish)
    match decision.kind:
        case TakeoverResultKind.GRANTED if wish.kind is TakeoverKind.ASK:
            written = write(_ask())
        case TakeoverResultKind.GRANTED:
            writer.keep_runs(
                [(wish.request_id, wish.generation)],
                outcome=wish.because,
                allowed_by=str(wish.kind),
            )
            written = write(
                _run_again(wish.kind), this_effect=wish.effect_kind, this_policy=wish.in_doubt
            )
            if written is None:
                # The history has the run already: decide again on the facts of now.
                raise Contended("a lease was renewed under a takeover")
        case TakeoverResultKind.ENDED:
            written = write(
                _end(),
                to_state=str(decision.state),
                to_code=decision.code,
                to_message=decision.message,
            )
        case _:
            return TakeoverResult(decision.kind, row)
    if written is None:
        # The owner's lease was renewed after the rule had looked.
        return TakeoverResult(TakeoverResultKind.STALE, row)
    return TakeoverResult(decision.kind, written)


def _written(
    writer: JournalWriter,
    wish: Takeover,
    statement: ReturningUpdate[Any],
    **values: str | None,
) -> Row | None:
    parameters = {
        "this_group": writer.group,
        "this_request": wish.request_id,
        "this_generation": wish.generation,
        "this_worker": writer.worker_id,
        **values,
    }
    answer = writer.connection.execute(statement, parameters).one_or_none()
    return None if answer is None else Row(*answer)


def living(connection: Connection, owners: Collection[str]) -> set[str]:
    statement = select(worker.c.worker_id).where(
        worker.c.worker_id.in_(sorted(owners)), worker.c.lease_until > now_ms()
    )
    return set(connection.execute(statement).scalars())


def _ended_runs(
    writer: JournalWriter, request_ids: Collection[str]
) -> dict[tuple[str, int], dict[str, int]]:
    parameters = RUNS.load(
        writer.connection, [(writer.group, name, 0) for name in sorted(request_ids)]
    )
    counts: dict[tuple[str, int], dict[str, int]] = {}
    answers = writer.connection.execute(_count_runs(writer.dialect), parameters).all()
    for request_id, attempt, outcome, count in answers:
        counts.setdefault((request_id, attempt), {})[outcome] = count
    return counts


@lru_cache
def _count_runs(dialect: str) -> Select[Any]:
    batch = RUNS.source(dialect)
    of_batch = and_(run.c.group == batch.c.group, run.c.request_id == batch.c.request_id)
    return (
        select(run.c.request_id, run.c.attempt, run.c.outcome, func.count())
        .join_from(batch, run, of_batch)
        .group_by(run.c.request_id, run.c.attempt, run.c.outcome)
    )


def _without_an_end() -> ColumnElement[bool]:
    return and_(
        this_run(),
        request.c.state == JournalState.CLAIMED.value,
        or_(request.c.owner == bindparam("this_worker"), ~owner_lives()),
    )


@lru_cache
def _ask() -> ReturningUpdate[Any]:
    return (
        update(request)
        .where(_without_an_end())
        .values(owner=bindparam("this_worker"))
        .returning(*ROW_COLUMNS)
    )


@lru_cache
def _run_again(kind: TakeoverKind) -> ReturningUpdate[Any]:
    # The doubt about the first run stays with the second where only the key protects it.
    is_doubtful = kind is TakeoverKind.SAME_KEY
    kept = request.c.effect_at if is_doubtful else null()
    declared = func.coalesce(bindparam("this_effect", type_=Text()), request.c.effect_kind)
    # A transactional run cannot carry a doubt: the doubtful one's kind stays.
    effect_kind = case(
        (and_(literal(is_doubtful), declared == "transactional"), request.c.effect_kind),
        else_=declared,
    )
    condition = _without_an_end()
    if kind is TakeoverKind.EXCLUDED:
        entered = and_(
            request.c.effect_kind != "transactional",
            or_(request.c.effect_kind != "marked", request.c.effect_at.is_not(None)),
        )
        condition = and_(condition, ~entered)
    return (
        update(request)
        .where(condition)
        .values(
            generation=request.c.generation + 1,
            owner=bindparam("this_worker"),
            claimed_at=now_ms(),
            effect_kind=effect_kind,
            effect_at=case((effect_kind == EXTERNAL, now_ms()), else_=kept),
            in_doubt=func.coalesce(bindparam("this_policy", type_=Text()), request.c.in_doubt),
            voids=request.c.voids + (1 if kind is TakeoverKind.VOIDED else 0),
        )
        .returning(*ROW_COLUMNS)
    )


@lru_cache
def _end() -> ReturningUpdate[Any]:
    return (
        update(request)
        .where(_without_an_end())
        .values(
            state=bindparam("to_state"),
            code=bindparam("to_code"),
            message=bindparam("to_message"),
            finished_at=now_ms(),
            published_at=null(),
        )
        .returning(*ROW_COLUMNS)
    )
