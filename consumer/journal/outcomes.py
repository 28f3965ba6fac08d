"""Which requests wait for the record of their outcome, and that it is written.

A request waits while it has ended and `outcome_generation` is older than the generation of its last
run. Where no outcome topic is declared that column is null, from the first claim on. No other
statement knows of it, since every way of reopening a request grows the generation. An IN_DOUBT
request has not ended; any statement that resolves it lets it wait from then on.
"""

from __future__ import annotations

from functools import lru_cache

from sqlalchemy import ColumnElement, Table, Update, literal_column, or_, update

from consumer.journal import clock
from consumer.journal.batch import RUNS
from consumer.journal.history import same_request
from consumer.journal.records import JournalState
from consumer.journal.tables import OUTCOME, request
from consumer.journal.waiting import Kind, WaitingRows


@lru_cache
def _written(dialect: str) -> Update:
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
        rows.c.deadline_at <= clock.once(),
    )


_ENDED = Kind(
    name="outcomes",
    index=OUTCOME,
    further=lambda rows: (_may_be_reopened_no_more(rows),),
    columns=lambda _: (),
    closing=_written,
)


class OutcomeRows(WaitingRows):
    """The ended requests that wait for their records; see `WaitingRows`.

    A failure that a resend may reopen has ended when its deadline is over.
    """

    kind = _ENDED
