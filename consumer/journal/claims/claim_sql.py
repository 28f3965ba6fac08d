"""The statements behind claims and refusals; built once for each kind of database."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Text,
    Update,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    literal_column,
    null,
    select,
    true,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from consumer.journal.batch import CLAIMS, REFUSALS, BatchShape, binary
from consumer.journal.clock import now_ms
from consumer.journal.history import ROW_COLUMNS, update_runs
from consumer.journal.records import DEADLINE_OVER, JournalState, over_message
from consumer.journal.tables import request
from feedback.sql.inserting import insert_into

EXTERNAL = "external"


@lru_cache
def insert_claims(dialect: str, *, outcomes: bool = False) -> ReturningInsert[Any]:
    """Return the insert of first claims; it answers (request_id, state, now) for each new row.

    One reading of the clock decides whether it is too late, and is every time it writes.

    Args:
        outcomes: whether there are topics whose outcomes are wanted; they are a parameter then.
    """
    batch = CLAIMS.source(dialect)
    clock = select(now_ms().label("now")).subquery("clock")
    too_late = batch.c.deadline_at <= clock.c.now
    values: dict[str, ColumnElement[Any]] = {
        **first_values(batch, dialect, outcomes=outcomes),
        "generation": batch.c.generation,
        "effect_kind": batch.c.effect_kind,
        "in_doubt": batch.c.in_doubt,
        "order_key": batch.c.order_key,
        "effect_at": case(
            (and_(batch.c.effect_kind == EXTERNAL, ~too_late), clock.c.now), else_=null()
        ),
        "state": case(
            (too_late, literal(JournalState.EXPIRED.value)),
            else_=literal(JournalState.CLAIMED.value),
        ),
        "claimed_at": case((too_late, null()), else_=clock.c.now),
        "finished_at": case((too_late, clock.c.now), else_=null()),
        **why_expired(too_late, (clock.c.now - batch.c.deadline_at) // 1000),
    }
    return insert_new(values, batch.join(clock, true()), dialect).returning(
        request.c.request_id,
        request.c.state,
        func.coalesce(request.c.claimed_at, request.c.finished_at),
    )


def why_expired(
    too_late: ColumnElement[bool], over_s: ColumnElement[Any]
) -> dict[str, ColumnElement[Any]]:
    """Return code and message of a request that came too late; `over_message` says the same."""
    before, after = over_message("|").split("|")
    message = literal(before).concat(cast(over_s, Text)).concat(literal(after))
    return {
        "code": case((too_late, literal(DEADLINE_OVER)), else_=null()),
        "message": case((too_late, message), else_=null()),
    }


@lru_cache
def insert_refusals(dialect: str, *, outcomes: bool = False) -> postgresql.Insert | sqlite.Insert:
    """Return the insert of refused records; an existing row stays as it is."""
    batch = REFUSALS.source(dialect)
    values: dict[str, ColumnElement[Any]] = {
        **first_values(batch, dialect, outcomes=outcomes),
        "state": literal(JournalState.FAILED.value),
        "finished_at": now_ms(),
        "code": batch.c.code,
        "message": batch.c.message,
    }
    return insert_new(values, batch, dialect)


@lru_cache
def reopen_claims(dialect: str) -> ReturningUpdate[Any]:
    """Return the update that reopens failed requests for a resend; it answers whole rows.

    The deadline stays: a resend keeps it (docs: Words).
    """
    batch = CLAIMS.source(dialect)
    cleared = ("code", "message", "result", "finished_at", "published_at", "dead_letter_at")
    statement: Update = (
        update_runs(batch, JournalState.FAILED.value)
        .where(request.c.resend == literal_column("1"))
        .values(
            generation=request.c.generation + 1,
            state=JournalState.CLAIMED.value,
            attempt=batch.c.attempt,
            topic=batch.c.topic,
            partition=batch.c.partition,
            offset=batch.c.offset,
            owner=bindparam("this_worker"),
            claimed_at=now_ms(),
            effect_kind=batch.c.effect_kind,
            in_doubt=batch.c.in_doubt,
            order_key=batch.c.order_key,
            effect_at=case((batch.c.effect_kind == EXTERNAL, now_ms()), else_=null()),
            due_at=null(),
            resend=literal_column("0"),
            **dict.fromkeys(cleared, null()),
        )
    )
    return statement.returning(*ROW_COLUMNS)


@lru_cache
def retry_claims(dialect: str) -> ReturningUpdate[Any]:
    """Return the update that lets requests run again that waited for it; it answers whole rows.

    Where they came from stays. That nothing happened clears the effect (docs: Effects and doubt).
    """
    batch = CLAIMS.source(dialect)
    cleared = ("code", "message", "result", "finished_at", "published_at", "due_at")
    return (
        update_runs(batch, JournalState.RETRYING.value)
        .values(
            generation=request.c.generation + 1,
            state=JournalState.CLAIMED.value,
            owner=bindparam("this_worker"),
            claimed_at=now_ms(),
            effect_kind=batch.c.effect_kind,
            in_doubt=batch.c.in_doubt,
            effect_at=case((batch.c.effect_kind == EXTERNAL, now_ms()), else_=null()),
            **dict.fromkeys(cleared, null()),
        )
        .returning(*ROW_COLUMNS)
    )


@lru_cache
def expire_claims(dialect: str) -> ReturningUpdate[Any]:
    """Return the update that ends requests whose deadline passed while they waited for a retry."""
    batch = CLAIMS.source(dialect)
    cleared = ("result", "published_at", "due_at")
    return (
        update_runs(batch, JournalState.RETRYING.value)
        .values(
            state=JournalState.EXPIRED.value,
            finished_at=now_ms(),
            **why_expired(true(), (now_ms() - request.c.deadline_at) // 1000),
            **dict.fromkeys(cleared, null()),
        )
        .returning(*ROW_COLUMNS)
    )


@lru_cache
def close_failures(dialect: str, shape: BatchShape = CLAIMS) -> ReturningUpdate[Any]:
    """Return the update that says of failures that no resend helps any more; it answers whole rows.

    They stay as they failed: a row without a dead letter gets one, a redriven row has its own.

    Args:
        shape: the columns that name them.
    """
    return (
        update_runs(shape.source(dialect), JournalState.FAILED.value)
        .where(request.c.resend == literal_column("1"))
        .values(resend=literal_column("0"), published_at=null())
        .returning(*ROW_COLUMNS)
    )


@lru_cache
def refuse_again(dialect: str) -> ReturningUpdate[Any]:
    """Return the update that ends failures by the refusal of their resend; it answers whole rows.

    A new generation, which never ran: so its dead letter is another one than that of the last run.
    """
    batch = REFUSALS.source(dialect)
    taken = ("attempt", "topic", "partition", "offset", "code", "message")
    cleared = ("claimed_at", "effect_at", "due_at", "result", "published_at", "dead_letter_at")
    return (
        update_runs(batch, JournalState.FAILED.value)
        .where(request.c.resend == literal_column("1"))
        .values(
            generation=request.c.generation + 1,
            owner=bindparam("this_worker"),
            finished_at=now_ms(),
            resend=literal_column("0"),
            **{name: batch.c[name] for name in taken},
            **dict.fromkeys(cleared, null()),
        )
        .returning(*ROW_COLUMNS)
    )


def first_values(
    batch: FromClause, dialect: str, *, outcomes: bool
) -> dict[str, ColumnElement[Any]]:
    copied = ("group", "request_id", "topic", "partition", "offset", "payload_sha256", "attempt")
    is_wanted = batch.c.topic.in_(bindparam("outcome_topics", expanding=True))
    # No run has had its outcome told yet.
    told = {"outcome_generation": case((is_wanted, literal_column("0")), else_=null())}
    return {
        **(told if outcomes else {}),
        **{name: batch.c[name] for name in (*copied, "deadline_at")},
        "message_key": binary(batch.c.message_key, dialect),
        "generation": literal_column("1"),
        "owner": bindparam("this_worker"),
    }


def insert_new(
    values: dict[str, ColumnElement[Any]], source: FromClause, dialect: str
) -> postgresql.Insert | sqlite.Insert:
    """Return the insert of these rows, which leaves existing rows alone."""
    # The WHERE: see `insert_into`.
    rows = select(*values.values()).select_from(source).where(literal_column("1 = 1"))
    return insert_into(request, dialect).from_select(list(values), rows).on_conflict_do_nothing()
