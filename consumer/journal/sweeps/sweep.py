"""A peer settles claims of dead workers, and statuses that were not written to Redis.

A sweep has three parts: find claims whose owner has no live lease, decide on each by the handler's
policy, and write that under the same condition again. Here are the first and the last;
`consumer/loop/recovery/sweeper.py` decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Integer,
    Select,
    bindparam,
    cast,
    func,
    null,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from consumer.journal import clock
from consumer.journal.claims.takeover import living
from consumer.journal.clock import now_ms
from consumer.journal.errors import Contended
from consumer.journal.history import ROW_COLUMNS, row_columns, this_run
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.losses.lost_rows import keep_lost, why_followed
from consumer.journal.open_requests import open_requests, require_complete
from consumer.journal.records import Claim, DeadEnd, JournalState, Row
from consumer.journal.sweeps.dead_claims import claimed_by_the_dead, sweeper_is_late
from consumer.journal.tables import NAME, UNTOLD, meta, request
from feedback.sql.inserting import insert_into


def take_turn(connection: Connection, name: str, every_ms: int) -> bool:
    """Whether the caller is the one whose turn it is: one of all callers is, each `every_ms`.

    Ten workers sweep as often as one does, and none of them has to be the one that lives.
    """
    parameters = {"this_name": name, "every": every_ms}
    if connection.execute(_NEXT_TURN, parameters).scalar() is not None:
        return True
    first = connection.execute(_first_turn(connection.dialect.name), {"this_name": name})
    return first.scalar() is not None


def end_dead(writer: JournalWriter, ends: Sequence[DeadEnd]) -> list[Row]:
    """End claims of dead workers; return the rows of those that still were theirs.

    Raises:
        Contended: a lease was renewed meanwhile, and nothing is written: ask again.
    """
    rows = []
    # Two sweeps that meet lock their rows in the same order.
    for end in sorted(ends, key=lambda one: one.request_id):
        parameters = {
            "this_group": writer.group,
            "this_worker": writer.worker_id,
            "this_request": end.request_id,
            "this_generation": end.generation,
            "to_state": end.state.value,
            "to_code": end.code,
            "to_message": end.message,
            "to_result": end.result,
            "to_resend": end.resend,
            "to_generation": end.told_generation or end.generation,
            "to_voids": end.voids,
        }
        is_kept = end.later is not None and _keep(writer, end, end.later)
        if end.later is not None and not is_kept:
            continue  # without its history it must not end: a lease may be over a moment later
        answer = writer.connection.execute(_END_DEAD, parameters).one_or_none()
        if answer is not None:
            rows.append(Row(*answer))
        elif is_kept:
            # The history has the run already: the next sweep decides on the facts of then.
            raise Contended("a lease was renewed, or ended, under a sweep")
    return rows


def _keep(writer: JournalWriter, end: DeadEnd, later: Claim) -> bool:
    """Keep a run in the history that ends as a later one; say whether this sweep may end it."""
    found, _ = writer.read([end.request_id], lock=True)
    row = found.get(end.request_id)
    if row is None or (row.generation, row.state) != (end.generation, JournalState.CLAIMED):
        return False
    is_late = writer.connection.scalar(_AM_I_LATE, {"this_worker": writer.worker_id})
    if is_late or row.owner in living(writer.connection, [row.owner]):
        return False
    why = why_followed(row, later, end.told_generation or end.generation)
    keep_lost(writer, row, why=why)
    return True


def unpublished(
    connection: Connection,
    group: str,
    limit: int,
    older_than_ms: int,
    within_ms: int,
    after: tuple[int, str],
) -> list[Row]:
    """Return rows whose state no status was confirmed for, the oldest first, behind `after`."""
    parameters = {
        "this_group": group,
        "most": limit,
        "age": older_than_ms,
        "within": within_ms,
        "after": after[0],
        "after_id": after[1],
    }
    require_complete(connection)
    answers = connection.execute(_find_untold(connection.dialect.name), parameters)
    return [Row(*answer) for answer in answers.all()]


@lru_cache
def _find_untold(dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    key = rows.c.finished_at, rows.c.request_id
    return (
        select(*row_columns(rows))
        .where(
            rows.c.group == bindparam("this_group"),
            text(UNTOLD),
            key[0] <= clock.once() - bindparam("age"),
            key[0] >= clock.once() - bindparam("within"),
            # Said twice, the first time for the index.
            key[0] >= bindparam("after"),
            or_(key[0] > bindparam("after"), key[1] > bindparam("after_id")),
        )
        .order_by(*key)
        .limit(bindparam("most"))
    )


def _end_dead() -> ReturningUpdate[Any]:
    return (
        update(request)
        .where(
            this_run(),
            # The lease again, in this statement: its owner may have renewed it since.
            claimed_by_the_dead(),
            ~sweeper_is_late(),
        )
        .values(
            state=bindparam("to_state"),
            code=bindparam("to_code"),
            message=bindparam("to_message"),
            result=bindparam("to_result"),
            resend=bindparam("to_resend"),
            generation=bindparam("to_generation"),
            voids=func.coalesce(bindparam("to_voids", type_=Integer()), request.c.voids),
            finished_at=now_ms(),
            published_at=null(),
        )
        .returning(*ROW_COLUMNS)
    )


def _next_turn() -> ReturningUpdate[Any]:
    at = cast(meta.c.value, BigInteger)
    now = clock.once()
    # Also when the last turn lies in the future: a database whose clock was set back goes on.
    is_due = (at <= now - bindparam("every")) | (at > now)
    return (
        update(meta)
        .where(meta.c.name == bindparam("this_name"), is_due)
        .values(value=cast(now_ms(), NAME))
        .returning(meta.c.name)
    )


@lru_cache
def _first_turn(dialect: str) -> ReturningInsert[Any]:
    first = {"name": bindparam("this_name"), "value": cast(now_ms(), NAME)}
    return insert_into(meta, dialect).values(first).on_conflict_do_nothing().returning(meta.c.name)


_AM_I_LATE = select(sweeper_is_late())
_END_DEAD = _end_dead()
_NEXT_TURN = _next_turn()
