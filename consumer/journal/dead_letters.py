"""Which failures wait for their dead letter, and that it is written (docs: Kafka records).

A failure waits while it is FAILED for good and `dead_letter_at` is empty.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import ScalarSelect, Table, Update, func, literal_column, select

from consumer.journal.batch import RUNS
from consumer.journal.clock import now_ms
from consumer.journal.history import update_runs
from consumer.journal.records import JournalState
from consumer.journal.tables import DEAD, request, run
from consumer.journal.waiting import Kind, WaitingRows


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


_DEAD = Kind(
    name="dead-letters",
    index=DEAD,
    further=lambda _: (),
    columns=lambda rows: (_first_failed_at(rows),),
    closing=_written,
)


class DeadLetterRows(WaitingRows):
    """The failures that wait for their letters; see `WaitingRows`.

    A failure that a resend may reopen is not dead, and where the payload was gone there is nothing
    to keep. The audit says the same (`spark_audit/judge/judge_rules.py`).
    """

    kind = _DEAD
