"""Skips: requests that end without a run, since another of their key has succeeded.

The statement itself checks that the other one has succeeded. So no row names one that has not, even
if the worker errs, or a batch was cut in halves. A request with a row stays as that row says: it
runs, has ended, or was asked for again by name.

An existing row stays as it is, with one exception: a failure that waited for this very record, a
resend or a redrive, has failed again by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    literal,
    null,
    select,
    true,
)
from sqlalchemy.sql.dml import ReturningInsert

from consumer.journal.batch import REFUSALS, SKIPS, carry
from consumer.journal.claims.claim_sql import (
    close_failures,
    first_values,
    insert_new,
    insert_refusals,
    refuse_again,
    why_expired,
)
from consumer.journal.claims.claiming import first_row
from consumer.journal.claims.verdict import ClaimAction, decide_refusal, is_same_request
from consumer.journal.clock import now_ms
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.records import JournalState, Refusal, Row, Skip
from consumer.journal.tables import request


def refuse(writer: JournalWriter, refusals: Sequence[Refusal]) -> list[Row]:
    """Return the row of each refusal, as it stands once it was refused."""
    distinct = {refusal.request_id: refusal for refusal in reversed(refusals)}
    parameters = _load_refusals(writer, distinct, {})
    if writer.outcome_topics:
        parameters["outcome_topics"] = sorted(writer.outcome_topics)
    statement = insert_refusals(writer.dialect, outcomes=bool(writer.outcome_topics))
    writer.connection.execute(statement, parameters)
    found, now = writer.read(distinct)
    waiting = {
        name: distinct[name]
        for name, row in found.items()
        if decide_refusal(distinct[name], row, now) is not ClaimAction.ANSWER
    }
    if waiting:
        found |= _end(writer, waiting)
    return [found[refusal.request_id] for refusal in refusals if refusal.request_id in found]


def _end(writer: JournalWriter, refusals: Mapping[str, Refusal]) -> dict[str, Row]:
    # Decided again on locked rows: another worker may have been faster.
    rows, now = writer.read(refusals, lock=True)
    chosen: dict[ClaimAction, dict[str, int]] = {}
    for name, row in rows.items():
        step = decide_refusal(refusals[name], row, now)
        chosen.setdefault(step, {})[name] = row.generation
    for step, statement in (
        (ClaimAction.REOPEN, refuse_again(writer.dialect)),
        (ClaimAction.CLOSE, close_failures(writer.dialect, REFUSALS)),
    ):
        generations = chosen.get(step, {})
        if not generations:
            continue
        if step is ClaimAction.REOPEN:
            writer.keep_runs(generations.items())
        named = {name: refusals[name] for name in generations}
        parameters = _load_refusals(writer, named, generations)
        answers = writer.connection.execute(statement, parameters).all()
        rows.update({row.request_id: row for row in (Row(*answer) for answer in answers)})
    return rows


def _load_refusals(
    writer: JournalWriter,
    refusals: Mapping[str, Refusal],
    generations: Mapping[str, int],
) -> dict[str, object]:
    dialect = writer.dialect
    rows = [
        (
            writer.group,
            request_id,
            refusal.topic,
            refusal.partition,
            refusal.offset,
            carry(refusal.message_key, dialect),
            refusal.payload_sha256,
            refusal.attempt,
            refusal.deadline_at,
            refusal.code,
            refusal.message,
            generations.get(request_id, 0),
        )
        for request_id, refusal in sorted(refusals.items())
    ]
    return {**REFUSALS.load(writer.connection, rows), "this_worker": writer.worker_id}


def skip(writer: JournalWriter, skips: Sequence[Skip]) -> list[Row]:
    """Return the rows of ended requests: as SKIPPED, or as EXPIRED past their deadline.

    Requests that an earlier try of unknown outcome has skipped are among them; all others go on.
    """
    wanted = {one.request_id: one for one in skips}
    parameters = _load(writer, wanted)
    if writer.outcome_topics:
        parameters["outcome_topics"] = sorted(writer.outcome_topics)
    statement = insert_skips(writer.dialect, outcomes=bool(writer.outcome_topics))
    answers = writer.connection.execute(statement, parameters).all()
    ended = [_row(wanted[name], state, now, writer.worker_id) for name, state, now in answers]
    known = {row.request_id for row in ended}
    found, _ = writer.read(wanted.keys() - known)
    return [*ended, *(row for row in found.values() if _is_it(wanted[row.request_id], row))]


@lru_cache
def insert_skips(dialect: str, *, outcomes: bool = False) -> ReturningInsert[Any]:
    """Return the insert; it answers (request_id, state, now) for each new row.

    Args:
        outcomes: whether there are topics whose outcomes are wanted; they are a parameter then.
    """
    batch = SKIPS.source(dialect)
    clock = select(now_ms().label("now")).subquery("clock")
    other = request.alias("other")
    has_succeeded = and_(
        other.c.group == batch.c.group,
        other.c.request_id == batch.c.by,
        other.c.generation == batch.c.by_generation,
        other.c.state == JournalState.SUCCEEDED.value,
    )
    too_late = batch.c.deadline_at <= clock.c.now
    values: dict[str, ColumnElement[Any]] = {
        **first_values(batch, dialect, outcomes=outcomes),
        "generation": batch.c.generation,
        "effect_kind": batch.c.effect_kind,
        "in_doubt": batch.c.in_doubt,
        "order_key": batch.c.order_key,
        "state": case(
            (too_late, literal(JournalState.EXPIRED.value)),
            else_=literal(JournalState.SKIPPED.value),
        ),
        "finished_at": clock.c.now,
        "by": case((too_late, null()), else_=batch.c.by),
        **why_expired(too_late, (clock.c.now - batch.c.deadline_at) // 1000),
    }
    source = batch.join(clock, true()).join(other, has_succeeded)
    return insert_new(values, source, dialect).returning(
        request.c.request_id, request.c.state, request.c.finished_at
    )


def _is_it(wish: Skip, row: Row) -> bool:
    return (
        is_same_request(wish.claim, row) and row.state == JournalState.SKIPPED and row.by == wish.by
    )


def _row(wish: Skip, state: str, now: int, worker_id: str) -> Row:
    row = first_row(wish.claim, state, worker_id=worker_id, now=now)
    return row._replace(by=wish.by) if state == JournalState.SKIPPED else row


def _load(writer: JournalWriter, skips: Mapping[str, Skip]) -> dict[str, object]:
    dialect = writer.dialect
    rows = [
        (
            writer.group,
            name,
            one.claim.topic,
            one.claim.partition,
            one.claim.offset,
            carry(one.claim.message_key, dialect),
            one.claim.payload_sha256,
            one.claim.attempt,
            one.claim.deadline_at,
            one.claim.effect_kind,
            one.claim.in_doubt,
            one.claim.order_key,
            one.claim.begins_at,
            one.by,
            one.by_generation,
        )
        # Two workers that lock the same rows lock them in the same order.
        for name, one in sorted(skips.items())
    ]
    return {**SKIPS.load(writer.connection, rows), "this_worker": writer.worker_id}
