"""Which requests wait for a dead letter or an outcome, and that it is written (docs: Kafka
records).

A failure waits for its letter while it is FAILED for good and `dead_letter_at` is empty.

A request waits for its outcome while it has ended and `outcome_generation` is older than the
generation of its last run. Where no outcome topic is declared that column is null, from the first
claim on. No other statement knows of it, since every way of reopening a request grows the
generation. An IN_DOUBT request has not ended; any statement that resolves it lets it wait from then
on.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Table,
    Update,
    func,
    literal_column,
    or_,
    select,
    update,
)

from consumer.journal.batch import RUNS
from consumer.journal.clock import now_ms, once
from consumer.journal.history import same_request, update_runs
from consumer.journal.records import JournalState
from consumer.journal.tables import DEAD, OUTCOME, request, run
from consumer.journal.waiting import OwedKind, WaitingRows


@lru_cache
def _written(dialect: str) -> Update:
    batch = RUNS.source(dialect)
    return (
        update_runs(batch, JournalState.FAILED.value)
        .where(request.c.resend == literal_column("0"), request.c.dead_letter_at.is_(None))
        .values(dead_letter_at=now_ms())
    )


def _first_failed_at(rows: Table) -> ScalarSelect[Any]:
    return (
        select(func.min(run.c.ended_at))
        .where(run.c.group == rows.c.group, run.c.request_id == rows.c.request_id)
        .scalar_subquery()
    )


_DEAD = OwedKind(
    name="dead-letters",
    index=DEAD,
    further=lambda _: (),
    columns=lambda rows: (_first_failed_at(rows),),
    closing=_written,
)


class DeadLetterRows(WaitingRows):
    """The failures that wait for their letters; see `WaitingRows`.

    A failure that a resend may reopen is not dead, and where the payload was gone there is nothing
    to keep. The audit says the same (`spark_audit/judge/letter_rules.py`).
    """

    kind = _DEAD


@lru_cache
def _told_of(dialect: str) -> Update:
    batch = RUNS.source(dialect)
    return (
        update(request)
        # One that was reopened meanwhile waits again by its higher generation.
        .where(same_request(batch), request.c.outcome_generation < batch.c.generation)
        .values(outcome_generation=batch.c.generation)
    )


def _may_be_reopened_no_more(rows: Table) -> ColumnElement[bool]:
    return or_(
        rows.c.state != JournalState.FAILED.value,
        rows.c.resend == literal_column("0"),
        rows.c.deadline_at <= once(),
    )


_ENDED = OwedKind(
    name="outcomes",
    index=OUTCOME,
    further=lambda rows: (_may_be_reopened_no_more(rows),),
    columns=lambda _: (),
    closing=_told_of,
)


class OutcomeRows(WaitingRows):
    """The ended requests that wait for their records; see `WaitingRows`.

    A failure that a resend may reopen has ended when its deadline is over.
    """

    kind = _ENDED
