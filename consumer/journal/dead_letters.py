"""Which failures wait for their dead letter, and that it is written (contract, section 7).

A failure waits while it is FAILED for good and `dead_letter_at` is empty.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import Update, func, literal_column, select

from consumer.journal.batch import RUNS
from consumer.journal.clock import now_ms
from consumer.journal.history import update_runs
from consumer.journal.records import JournalState, Row
from consumer.journal.tables import DEAD, request, run
from consumer.journal.waiting import Cursor, Kind, OwedCount, WaitingRows

__all__ = ["Cursor", "Dead", "DeadLetterRows", "OwedCount"]


class Dead(NamedTuple):
    """A failure that waits for its letter.

    Args:
        first_failed_at: epoch ms of the end of its first run, where the history has one.
    """

    row: Row
    first_failed_at: int | None


class DeadLetterRows(WaitingRows[Dead]):
    """The failures that wait for their letters; see `WaitingRows`.

    A failure that a resend may reopen is not dead, and where the payload was gone there is nothing
    to keep. The audit says the same (`spark_audit/judge/judge_rules.py`).
    """

    def __init__(
        self,
        url: str,
        *,
        group: str,
        worker_id: str,
        statement_timeout_s: float = 10.0,
    ) -> None:
        super().__init__(
            _DEAD,
            url,
            group=group,
            worker_id=worker_id,
            statement_timeout_s=statement_timeout_s,
        )


@lru_cache
def _written(dialect: str) -> Update:
    batch = RUNS.source(dialect)
    return (
        update_runs(batch, JournalState.FAILED.value)
        .where(request.c.resend == literal_column("0"), request.c.dead_letter_at.is_(None))
        .values(dead_letter_at=now_ms())
    )


_FIRST_FAILED_AT = (
    select(func.min(run.c.ended_at))
    .where(run.c.group == request.c.group, run.c.request_id == request.c.request_id)
    .scalar_subquery()
)
_DEAD = Kind(
    name="dead-letters",
    index=DEAD,
    further=(),
    columns=(_FIRST_FAILED_AT,),
    item=Dead,
    closing=_written,
)
