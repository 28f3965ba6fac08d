"""Finishes, effects and confirmed statuses: the life of a claim after it was granted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Update, bindparam, func, null, or_, select
from sqlalchemy.sql.dml import ReturningUpdate

from consumer.journal.batch import FINISHES, RUNS, STATES
from consumer.journal.claims.verdict import decide_finish, resolution
from consumer.journal.clock import now_ms
from consumer.journal.history import update_runs
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.records import (
    EffectMark,
    Finish,
    FinishKind,
    FinishResult,
    JournalState,
    Published,
    Run,
)
from consumer.journal.tables import request


def finish(writer: JournalWriter, finishes: Sequence[Finish]) -> dict[Run, FinishResult]:
    """Write how runs ended; return the result of each finish, by (request_id, generation)."""
    distinct = {(one.request_id, one.generation): one for one in reversed(finishes)}
    written = _write(writer, distinct, JournalState.CLAIMED, is_ours=True)
    results = {
        name: FinishResult(FinishKind.WRITTEN, due_at=due_at) for name, due_at in written.items()
    }
    if len(results) < len(distinct):
        rest = {name: one for name, one in distinct.items() if name not in written}
        results.update(_finish_late(writer, rest))
    return results


def _finish_late(writer: JournalWriter, finishes: dict[Run, Finish]) -> dict[Run, FinishResult]:
    rows, _ = writer.read({name for name, _ in finishes}, lock=True)
    results = {}
    for name, one in finishes.items():
        row = rows.get(one.request_id)
        results[name] = FinishResult(decide_finish(one, row, writer.worker_id), row)
    chosen = [name for name, result in results.items() if result.kind is FinishKind.WRITTEN]
    # Another worker asks about these runs of ours, and hears of their ends.
    asked = {name: finishes[name] for name in chosen if rows[name[0]].state == JournalState.CLAIMED}
    for name, due_at in _write(writer, asked, JournalState.CLAIMED).items():
        results[name] = FinishResult(FinishKind.WRITTEN, due_at=due_at)
    resolved = {name: resolution(finishes[name]) for name in chosen if name not in asked}
    if resolved:
        writer.keep_runs(resolved)
        for name in _write(writer, resolved, JournalState.IN_DOUBT):
            other = None if resolved[name] == finishes[name] else resolved[name]
            results[name] = FinishResult(FinishKind.WRITTEN, resolution=other)
    return results


def _write(
    writer: JournalWriter,
    finishes: dict[Run, Finish],
    state: JournalState,
    *,
    is_ours: bool = False,
) -> dict[Run, int | None]:
    """Return when the next run of each is due, by the rows as written.

    Args:
        is_ours: only where the row is this worker's; else it is locked, and was decided on.
    """
    if not finishes:
        return {}
    rows = [
        (
            writer.group,
            one.request_id,
            one.generation,
            one.state,
            one.code,
            one.message,
            one.result,
            int(one.resend),
            one.delay_ms,
        )
        for _, one in sorted(finishes.items())
    ]
    parameters = {**FINISHES.load(writer.connection, rows), "found": state.value}
    if is_ours:
        parameters["this_worker"] = writer.worker_id
    statement = _finish(writer.dialect, is_ours=is_ours)
    answers = writer.connection.execute(statement, parameters).all()
    return {(request_id, generation): due_at for request_id, generation, due_at in answers}


def mark_effects(writer: JournalWriter, effects: Sequence[EffectMark]) -> set[Run]:
    """Note that effects are entered; return the (request_id, generation) that may enter.

    One that is noted already was asked for by an earlier try of unknown outcome: it may enter.
    """
    entered: set[Run] = set()
    # Hardly ever are there marks of both kinds: so this is one statement.
    for only_in_time in (False, True):
        marks = [one for one in effects if one.only_in_time is only_in_time]
        if marks:
            entered |= _mark(writer, marks, only_in_time=only_in_time)
    return entered


def _mark(writer: JournalWriter, marks: Sequence[EffectMark], *, only_in_time: bool) -> set[Run]:
    names = {(one.request_id, one.generation) for one in marks}
    rows = [(writer.group, *name) for name in sorted(names)]
    parameters = {**RUNS.load(writer.connection, rows), "this_worker": writer.worker_id}
    statement = _mark_effect(writer.dialect, only_in_time=only_in_time)
    answers = writer.connection.execute(statement, parameters).all()
    return {(request_id, generation) for request_id, generation in answers}


def mark_published(connection: Connection, group: str, published: Sequence[Published]) -> None:
    """Note the statuses that Redis confirmed, where the journal still says the same."""
    names = {(one.request_id, one.generation, str(one.state)) for one in published}
    parameters = STATES.load(connection, [(group, *name) for name in sorted(names)])
    connection.execute(_mark_published(connection.dialect.name), parameters)


@lru_cache
def _finish(dialect: str, *, is_ours: bool) -> ReturningUpdate[Any]:
    source = FINISHES.source(dialect)
    # One reading for both times of a row: PostgreSQL's clock goes on within a statement.
    batch = select(*source.c, now_ms().label("now")).subquery("ended")
    taken = ("state", "code", "message", "result", "resend")
    wanted = update_runs(batch, bindparam("found"))
    if is_ours:
        # A peer may have claimed this generation anew: the database has lost our claim then.
        wanted = wanted.where(request.c.owner == bindparam("this_worker"))
    return wanted.values(
        finished_at=batch.c.now,
        published_at=null(),
        # Null without a delay.
        due_at=batch.c.now + batch.c.delay_ms,
        **{name: batch.c[name] for name in taken},
    ).returning(request.c.request_id, request.c.generation, request.c.due_at)


@lru_cache
def _mark_effect(dialect: str, *, only_in_time: bool) -> ReturningUpdate[Any]:
    batch = RUNS.source(dialect)
    wanted = update_runs(batch, JournalState.CLAIMED.value)
    if only_in_time:
        is_in_time = request.c.deadline_at > now_ms()
        wanted = wanted.where(or_(is_in_time, request.c.effect_at.is_not(None)))
    return (
        wanted.where(request.c.owner == bindparam("this_worker"))
        .values(effect_at=func.coalesce(request.c.effect_at, now_ms()))
        .returning(request.c.request_id, request.c.generation)
    )


@lru_cache
def _mark_published(dialect: str) -> Update:
    batch = STATES.source(dialect)
    return (
        update_runs(batch, batch.c.state)
        .where(request.c.published_at.is_(None))
        .values(published_at=now_ms())
    )
