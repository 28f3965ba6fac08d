"""Retries whose time has passed: found for a sweep, ended where no run follows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    case,
    literal,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from consumer.journal import clock
from consumer.journal.claims.claim_sql import why_expired
from consumer.journal.clock import now_ms
from consumer.journal.history import ROW_COLUMNS, retried_runs, row_columns, this_run
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.open_requests import open_requests, require_complete
from consumer.journal.records import JournalState, OverdueRetry, RetriedRuns, Row
from consumer.journal.state_literals import RETRYING
from consumer.journal.tables import request

PAYLOAD_GONE = "PAYLOAD_GONE"
_GONE = "its payload is gone, so it cannot run again"


class DueCursor(NamedTuple):
    """Where the next page begins: behind this due time (epoch ms) and id."""

    due_at: int = -1
    request_id: str = ""

    @classmethod
    def behind(cls, row: Row) -> DueCursor:
        """Return where the page behind this row begins."""
        return cls(row.due_at or 0, row.request_id)


FROM_THE_OLDEST = DueCursor()


def find_overdue(
    connection: Connection,
    group: str,
    *,
    topics: Collection[str],
    limit: int,
    older_than_ms: int,
    cursor: DueCursor,
    within_ms: int,
) -> list[OverdueRetry]:
    """Return requests whose next run was due so long ago, the oldest behind the cursor first."""
    parameters = {
        "this_group": group,
        "these_topics": sorted(topics),
        "after": cursor.due_at,
        "after_id": cursor.request_id,
        "most": limit,
        "age": older_than_ms,
        "within": within_ms,
    }
    require_complete(connection)
    answers = connection.execute(_find(connection.dialect.name), parameters).all()
    rows = [(answer[0], Row(*answer[1:])) for answer in answers]
    retried = retried_runs(connection, group, [row.request_id for _, row in rows])
    return [
        OverdueRetry(
            row,
            retried.get((row.request_id, row.attempt), RetriedRuns()),
            is_too_late=now >= row.deadline_at,
            late_ms=now - (row.due_at or now),
        )
        for now, row in rows
    ]


def end_retries(writer: JournalWriter, rows: Sequence[Row]) -> list[Row]:
    """End requests that wait for a next run; return the rows of those that still did."""
    ended = []
    # Two sweeps that meet lock their rows in the same order.
    for row in sorted(rows, key=lambda one: one.request_id):
        parameters = {
            "this_group": writer.group,
            "this_request": row.request_id,
            "this_generation": row.generation,
            "this_worker": writer.worker_id,
        }
        answer = writer.connection.execute(_end(), parameters).one_or_none()
        if answer is not None:
            ended.append(Row(*answer))
    return ended


@lru_cache
def _find(dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    key = rows.c.due_at, rows.c.request_id
    return (
        select(now_ms(), *row_columns(rows))
        .where(
            rows.c.group == bindparam("this_group"),
            rows.c.state == RETRYING,
            key[0] <= clock.once() - bindparam("age"),
            key[0] >= clock.once() - bindparam("within"),
            # Said twice, the first time for the index.
            key[0] >= bindparam("after"),
            or_(key[0] > bindparam("after"), key[1] > bindparam("after_id")),
            rows.c.topic.in_(bindparam("these_topics", expanding=True)),
        )
        .order_by(*key)
        .limit(bindparam("most"))
    )


@lru_cache
def _end() -> ReturningUpdate[Any]:
    is_late = request.c.deadline_at <= now_ms()
    why = why_expired(is_late, (now_ms() - request.c.deadline_at) // 1000)
    return (
        update(request)
        .where(
            this_run(),
            request.c.state == RETRYING,
        )
        .values(
            state=case(
                (is_late, literal(JournalState.EXPIRED.value)),
                else_=literal(JournalState.FAILED.value),
            ),
            code=case((is_late, why["code"]), else_=literal(PAYLOAD_GONE)),
            message=case((is_late, why["message"]), else_=literal(_GONE)),
            owner=bindparam("this_worker"),
            due_at=null(),
            finished_at=now_ms(),
            published_at=null(),
        )
        .returning(*ROW_COLUMNS)
    )
