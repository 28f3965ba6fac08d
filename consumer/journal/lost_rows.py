"""Rows of runs that the database has lost, written row by row."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Update, null, update

from consumer.journal.clock import now_ms
from consumer.journal.followed_rule import Followed
from consumer.journal.history import keep_runs, this_run
from consumer.journal.records import WORKER_DIED, Claim, JournalState, Row, TakeoverKind
from consumer.journal.tables import request
from feedback.sql.inserting import insert_into


def insert_lost(
    connection: Connection, group: str, claim: Claim, values: dict[str, Any], *, wants_outcome: bool
) -> None:
    """Insert the row of a request that has none; leave a row of another worker alone.

    Args:
        values: by the names of the columns; they win over those of the claim.
    """
    named = {
        "group": group,
        "request_id": claim.request_id,
        "payload_sha256": claim.payload_sha256,
        "outcome_generation": 0 if wants_outcome else None,
    }
    row = {**claim_values(claim), **values, **named}
    # The row of another worker is looked at the next time.
    inserted = insert_into(request, connection.dialect.name).values(row)
    connection.execute(inserted.on_conflict_do_nothing())


def overwrite_lost(
    connection: Connection,
    group: str,
    worker_id: str,
    row: Row,
    values: dict[str, Any],
    *,
    why: Followed | TakeoverKind | None,
) -> None:
    """Keep a run that is behind in the history, and write a later one over it.

    Args:
        row: as it stands, locked.
        values: of the later run, by the names of the columns.
        why: the reason that the history gives.
    """
    # Of an older claim that stands there nobody knows the end any more.
    outcome = WORKER_DIED if row.state == JournalState.CLAIMED else None
    name = (row.request_id, row.generation)
    keep_runs(connection, group, [name], worker_id, outcome=outcome, allowed_by=why)
    parameters = {
        "this_group": group,
        "this_request": row.request_id,
        "this_generation": row.generation,
    }
    connection.execute(_OVERWRITE.values({**values, "dead_letter_at": null()}), parameters)


def claim_values(claim: Claim) -> dict[str, Any]:
    return {
        "topic": claim.topic,
        "partition": claim.partition,
        "offset": claim.offset,
        "message_key": claim.message_key,
        "attempt": claim.attempt,
        "effect_kind": claim.effect_kind,
        "in_doubt": claim.in_doubt,
        "voids": claim.voids,
        "deadline_at": claim.deadline_at,
        "order_key": claim.order_key,
    }


def claimed_at(claim: Claim) -> ColumnElement[Any] | int:
    """Return when a run was claimed that is written again: now, where nobody knows better."""
    return now_ms() if claim.claimed_at is None else claim.claimed_at


def named_run() -> Update:
    """Return an update of one run: `this_group`, `this_request` and `this_generation` name it."""
    return update(request).where(this_run())


_OVERWRITE = named_run()
