"""Claims of dead workers, found without a look at those of the living.

While a long snapshot is open (a backup, an audit), PostgreSQL keeps in its index every claim that
ended since: to read all claims of a living worker costs as much as all that it has ever had since.
So the index, which is in the order of the owners, is read only between the living, and between
those that are gone and have left nothing (`gone_owners`). A worker that dies meanwhile is found by
the next look.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    collate,
    exists,
    func,
    or_,
    select,
    true,
    union_all,
)
from sqlalchemy.dialects.postgresql import ARRAY

from consumer.journal.claims.takeover import owner_lives
from consumer.journal.clock import now_ms
from consumer.journal.history import row_columns
from consumer.journal.open_requests import by_index, open_requests, require_complete
from consumer.journal.records import Row
from consumer.journal.state_literals import CLAIMED, RETRYING
from consumer.journal.sweeps.gone_owners import GoneOwners
from consumer.journal.tables import request, worker
from feedback.clock import monotonic_s

# Before every owner.
FIRST = ("", "")


class UnhandledRequest(NamedTuple):
    """A request on a topic that the asking worker has no handler for, and nobody goes on with.

    Args:
        row: a claim of a dead worker, or a retry.
        is_late: its deadline has been over for a while: whoever had a handler had the time.
    """

    row: Row
    is_late: bool


def find(
    connection: Connection,
    group: str,
    *,
    topics: Collection[str],
    limit: int,
    worker_id: str,
    gone: GoneOwners,
    after: tuple[str, str] = FIRST,
) -> list[Row]:
    """Return claims on `topics` of workers without a live lease, in the order of their owners.

    None while the lease of `worker_id` is over.

    Args:
        gone: the findings of earlier looks at these topics.
    """
    owner, request_id = after
    further = {"most": limit, "this_worker": worker_id, "seen": owner, "seen_request": request_id}
    registered, lives = _workers(connection, group)
    began_s = monotonic_s()
    settled = gone.begin(lives, registered, began_s)
    left_out = _in_order(connection, [*lives, *settled]) if settled else lives
    try:
        found = _found(connection, _claims, group, topics, further, left_out)
    finally:
        gone.ended(began_s, monotonic_s())
    rows = [Row(*one) for one in found]
    # A worker whose lease is over finds nothing, and knows nothing; nor does a later page know the
    # rows before it.
    is_complete = len(rows) < limit and worker_id in lives and after == FIRST
    gone.found({row.owner for row in rows}, began_s, is_complete=is_complete)
    return rows


def find_unhandled(
    connection: Connection,
    group: str,
    *,
    topics: Collection[str],
    limit: int,
    late_ms: int,
    worker_id: str,
) -> list[UnhandledRequest]:
    """Return claims and retries on any other topic than these, the oldest deadlines first."""
    further = {"most": limit, "this_worker": worker_id, "late": late_ms}
    _, lives = _workers(connection, group)
    found = _found(connection, _unhandled, group, topics, further, lives)
    return [UnhandledRequest(Row(*row), bool(is_late)) for is_late, *row in found]


def claimed_by_the_dead(rows: Table = request) -> ColumnElement[bool]:
    """Return the condition that a claim's owner has no lease, or one that is over."""
    return and_(rows.c.state == CLAIMED, ~owner_lives(rows))


def sweeper_is_late() -> ColumnElement[bool]:
    """Return the condition that the sweeper's own lease is over."""
    mine = worker.alias("mine")
    return exists().where(
        mine.c.worker_id == bindparam("this_worker"), mine.c.lease_until <= now_ms()
    )


def _found(
    connection: Connection,
    statement: Any,
    group: str,
    topics: Collection[str],
    further: Mapping[str, Any],
    left_out: Sequence[str],
) -> list[tuple[Any, ...]]:
    """Return the rows that a statement finds.

    Args:
        left_out: the owners that it need not look at, in the order of the index.
    """
    parameters = {"this_group": group, "these_topics": sorted(topics), **further}
    if left_out:
        parameters |= {
            "first": left_out[0],
            "last": left_out[-1],
            "froms": left_out[:-1],
            "tos": left_out[1:],
        }
    require_complete(connection)
    rows = open_requests(connection.dialect.name)
    answers = connection.execute(statement(rows, between=bool(left_out)), parameters)
    return [tuple(answer) for answer in answers]


def _workers(connection: Connection, group: str) -> tuple[list[str], list[str]]:
    """Return who has a lease, over or not, and who lives, in the order of the index of the claims.

    On SQLite nobody: it keeps nothing in an index that is gone, so to leave out claims saves
    nothing.
    """
    if connection.dialect.name == "sqlite":
        return [], []
    workers = [tuple(one) for one in connection.execute(_WORKERS, {"this_group": group})]
    return [name for name, _ in workers], [name for name, is_alive in workers if is_alive]


def _in_order(connection: Connection, owners: Sequence[str]) -> list[str]:
    return list(connection.execute(_IN_ORDER, {"owners": owners}).scalars())


@lru_cache
def _claims(rows: Table, *, between: bool) -> Select[Any]:
    owner, seen = rows.c.owner, bindparam("seen", type_=Text())
    is_after = and_(
        owner >= seen,  # the index begins there
        or_(owner > seen, rows.c.request_id > bindparam("seen_request", type_=Text())),
    )
    parts = _of_the_dead(
        rows,
        row_columns(rows),
        and_(rows.c.topic.in_(bindparam("these_topics", expanding=True)), is_after),
        order=(owner, rows.c.request_id),
        between=between,
    )
    return _together(parts, "owner", "request_id")


@lru_cache
def _unhandled(rows: Table, *, between: bool) -> Select[Any]:
    is_late = (rows.c.deadline_at + bindparam("late") <= now_ms()).label("is_late")
    columns = (is_late, *row_columns(rows))
    elsewhere = rows.c.topic.not_in(bindparam("these_topics", expanding=True))
    order = (rows.c.deadline_at,)
    parts = _of_the_dead(rows, columns, elsewhere, order=order, between=between)
    waiting = (rows.c.state == RETRYING, elsewhere)
    parts.append(_part(rows, columns, *waiting, order=order, index="retrying"))
    return _together(parts, "deadline_at")


def _of_the_dead(
    rows: Table,
    columns: Sequence[ColumnElement[Any]],
    condition: ColumnElement[bool],
    *,
    order: Sequence[ColumnElement[Any]],
    between: bool,
) -> list[Select[Any]]:
    conditions = (claimed_by_the_dead(rows), condition)
    if not between:
        return [_part(rows, columns, *conditions, order=order)]
    gap = (
        func.unnest(bindparam("froms", type_=ARRAY(Text)), bindparam("tos", type_=ARRAY(Text)))
        .table_valued("lower", "upper", name="gap")
        .render_derived()
    )
    owner = rows.c.owner
    inner = _part(
        rows, columns, *conditions, owner > gap.c.lower, owner < gap.c.upper, order=order
    ).lateral("within")
    return [
        _part(rows, columns, *conditions, owner < bindparam("first"), order=order),
        select(*inner.c).select_from(gap).join(inner, true()),
        _part(rows, columns, *conditions, owner > bindparam("last"), order=order),
    ]


def _part(
    rows: Table,
    columns: Sequence[ColumnElement[Any]],
    *conditions: ColumnElement[bool],
    order: Sequence[ColumnElement[Any]],
    index: str = "claimed",
) -> Select[Any]:
    wanted = (
        select(*columns)
        .where(rows.c.group == bindparam("this_group"), *conditions, ~sweeper_is_late())
        .order_by(*order)
        .limit(bindparam("most"))
    )
    return by_index(wanted, rows, index)


def _together(parts: Sequence[Select[Any]], *order: str) -> Select[Any]:
    # SQLite takes no ORDER BY in a part of a union, but in a query of a query.
    found = union_all(*(select(part.subquery()) for part in parts)).subquery("found")
    return select(found).order_by(*(found.c[name] for name in order)).limit(bindparam("most"))


# As owners are in their index; ids have another order in the table of the workers.
_WORKERS = (
    select(worker.c.worker_id, worker.c.lease_until > now_ms())
    .where(worker.c.group == bindparam("this_group"))
    .order_by(collate(worker.c.worker_id, "default"))
)
_OWNERS = func.unnest(bindparam("owners", type_=ARRAY(Text))).column_valued("owner")
_IN_ORDER = select(_OWNERS).order_by(collate(_OWNERS, "default"))
