"""Rows of runs that the database has lost, written row by row.

The history gives a reason for each run that is overwritten, and the audit accuses it or not. It
must accuse a run beside the lost one: its worker found no trace of that one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Update, null, update

from consumer.journal.claims.verdict import leads_on, may_have_acted
from consumer.journal.clock import now_ms
from consumer.journal.history import this_run
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.records import (
    CLAIMED_TWICE,
    END_LOST,
    WORKER_DIED,
    Claim,
    JournalState,
    OwnRun,
    Row,
    TakeoverKind,
)
from consumer.journal.tables import request
from feedback.sql.inserting import insert_into

_WITHOUT_AN_END = (JournalState.CLAIMED, JournalState.IN_DOUBT)
_SAME_KEY = "retry_same_key"
TRANSACTIONAL = "transactional"
_DENIED = (
    "the database had lost the claim of this run, and another worker ended the request as {}: "
    "whether the run had its effect is not known"
)
_TWICE = (
    "the database had lost the claim of this run, and {} claimed it anew: whether none of the two "
    "runs, one or both had an effect is not known"
)


class AllowedBy(StrEnum):
    """Why another run stands over one in the history (`onceward_run.allowed_by`).

    RAISED: the row above tells of this same run; it has the generation of a later one that is lost
    and left nothing. GRANTED: the journal had granted the later run after all that is known of this
    one, and has lost why.
    """

    RAISED = "RAISED"
    GRANTED = "GRANTED"


def why_followed(
    row: Row, later: Claim, generation: int, *, is_raised: bool = False
) -> AllowedBy | TakeoverKind | None:
    """Return why a lost run may stand over the one in a row; None where that may be a second one.

    No claim is granted beside a run that may go on. So where the claim of the later run is the last
    of these moments, a rule has let it follow this run; else something of this run has happened
    after the loss, and both may have had their effect. All of them are the database's clock's. Of
    two claims of one generation, none was granted after the other.

    Args:
        later: the claim of the later run, as it was granted. generation: of that run.
        is_raised: whether the run of the row goes on above the later one.
    """
    if is_raised:
        return AllowedBy.RAISED
    moments = (row.claimed_at, row.effect_at, row.finished_at)
    last = max((one for one in moments if one is not None), default=0)
    is_beside = row.generation == generation and row.claimed_at != later.claimed_at
    is_last = later.claimed_at is not None and last <= later.claimed_at
    if row.state in _WITHOUT_AN_END and is_last and not is_beside:
        return AllowedBy.GRANTED
    return TakeoverKind.SAME_KEY if _have_one_key(row, later) else None


def _have_one_key(row: Row, later: Claim) -> bool:
    is_keyed = row.in_doubt == later.in_doubt == _SAME_KEY and row.voids == later.voids
    return is_keyed and TRANSACTIONAL not in (row.effect_kind, later.effect_kind)


def insert_lost(writer: JournalWriter, claim: Claim, values: dict[str, Any]) -> None:
    """Insert the row of a request that has none; leave a row of another worker alone.

    Args:
        values: by the names of the columns; they win over those of the claim.
    """
    named = {
        "group": writer.group,
        "request_id": claim.request_id,
        "payload_sha256": claim.payload_sha256,
        "outcome_generation": 0 if claim.topic in writer.outcome_topics else None,
    }
    row = {**claim_values(claim), **values, **named}
    # The row of another worker is looked at the next time.
    inserted = insert_into(request, writer.dialect).values(row)
    writer.connection.execute(inserted.on_conflict_do_nothing())


def overwrite_lost(
    writer: JournalWriter,
    row: Row,
    values: dict[str, Any],
    *,
    why: AllowedBy | TakeoverKind | None,
) -> None:
    """Keep a run that is behind in the history, and write a later one over it.

    Args:
        row: as it stands, locked.
        values: of the later run, by the names of the columns.
        why: the reason that the history gives.
    """
    keep_lost(writer, row, why=why)
    parameters = {
        "this_group": writer.group,
        "this_request": row.request_id,
        "this_generation": row.generation,
    }
    writer.connection.execute(_OVERWRITE.values({**values, "dead_letter_at": null()}), parameters)


def keep_lost(writer: JournalWriter, row: Row, *, why: AllowedBy | TakeoverKind | None) -> None:
    """Keep a run that is behind in the history; see `overwrite_lost`."""
    # Of an older claim that stands there nobody knows the end any more.
    outcome = WORKER_DIED if row.state == JournalState.CLAIMED else None
    writer.keep_runs([(row.request_id, row.generation)], outcome=outcome, allowed_by=why)


def as_denied(one: OwnRun, row: Row) -> OwnRun:
    """Return a run of ours as it is written over a row. Pure.

    Where its request has ended as one that was never claimed, a run that may have had its effect is
    in doubt until it ends: its client was told that end, or will be, and nobody goes on with it.
    Not where that end was asked for again: the run may be the one that was granted for that. Over
    the run of a peer that claimed its generation anew, the doubt is about both.
    """
    end = one.finish
    if not may_have_acted(one) or (end is not None and end.state != JournalState.IN_DOUBT):
        return one
    if not row.knows_of_no_claim:
        is_beside = row.generation == one.generation
        return _claimed_twice(one, row) if is_beside else one
    if end is not None:
        return one
    if row.generation < one.generation and leads_on(row, one):
        return one
    return one.in_doubt(END_LOST, _DENIED.format(row.state))


def _claimed_twice(one: OwnRun, row: Row) -> OwnRun:
    end, message = one.finish, _TWICE.format(row.owner)
    if end is not None and end.code == CLAIMED_TWICE:
        return one
    if end is not None:
        message += f"; of this one: {end.code}: {end.message}"
    return one.in_doubt(CLAIMED_TWICE, message)


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
