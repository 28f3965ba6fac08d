"""The statements of `outbox_table`: of rows that wait in lanes, and of their ends."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Integer,
    ScalarSelect,
    Select,
    bindparam,
    cast,
    delete,
    func,
    literal_column,
    or_,
    select,
    text,
    union_all,
    update,
)

from feedback.sql import clock
from feedback.sql.clock import now_ms
from feedback.sql.inserting import insert_into
from producer_client.outbox.row import READ
from producer_client.outbox.tables import RowState, lane, row

# As in the index: a parameter would keep a generic plan from using it.
_WAITS = row.c.state == literal_column(f"'{RowState.WAITING}'")


def _waiting_in(number: ColumnElement[int]) -> tuple[ColumnElement[bool], ...]:
    return (row.c.group == bindparam("g"), row.c.lane == number, _WAITS)


def _first_topic(number: ColumnElement[int], *after: ColumnElement[bool]) -> ScalarSelect[str]:
    # One lookup in the index, however many rows of a topic wait.
    first = select(row.c.topic).where(*_waiting_in(number), *after).order_by(row.c.topic)
    return first.limit(literal_column("1")).correlate_except(row).scalar_subquery()


def _heads() -> Select[Any]:
    """Return the statement that reads which topics wait in free lanes."""
    first = select(lane.c.lane, _first_topic(lane.c.lane).label("topic"))
    heads = first.where(lane.c.group == bindparam("g"), _IS_FREE).cte("heads", recursive=True)
    behind = _first_topic(heads.c.lane, row.c.topic > heads.c.topic)
    heads = heads.union_all(select(heads.c.lane, behind).where(heads.c.topic.is_not(None)))
    return select(heads.c.lane, heads.c.topic).where(heads.c.topic.is_not(None))


NEED_NOT_LAST = text("SET LOCAL synchronous_commit = off")
# The condition of the index of ended rows: SQLite does not infer it from another state.
_HAS_ENDED = row.c.state != literal_column(f"'{RowState.WAITING}'")
GROUP_LANES = select(lane.c.lane).where(lane.c.group == bindparam("g"))
_IS_FREE = or_(lane.c.owner.is_(None), lane.c.lease_until <= now_ms())
HEADS = _heads()
FREE = (
    select(lane.c.lane)
    .where(
        lane.c.group == bindparam("g"),
        lane.c.lane.in_(bindparam("lanes", expanding=True)),
        _IS_FREE,
    )
    # The lane that was served longest ago.
    .order_by(lane.c.lease_until)
    .limit(bindparam("most"))
    .with_for_update(skip_locked=True)
)
TAKE = (
    update(lane)
    .where(lane.c.group == bindparam("g"), lane.c.lane.in_(bindparam("lanes", expanding=True)))
    .values(owner=bindparam("whose"), lease_until=now_ms() + bindparam("lease"))
)
_MINE = (lane.c.group == bindparam("g"), lane.c.owner == bindparam("whose"))
RENEW = (
    update(lane)
    .where(*_MINE)
    .values(lease_until=now_ms() + bindparam("lease"))
    .returning(lane.c.lane)
)
RELEASE = update(lane).where(*_MINE).values(owner=None, lease_until=now_ms()).returning(lane.c.lane)


@lru_cache
def select_first_rows(heads: int) -> Select[Any]:
    """Return the statement that reads the first rows of lanes, from so many topics in them."""
    names = [*READ, "size_bytes"]
    parts = [
        select(
            select(*(row.c[name] for name in names))
            .where(*_waiting_in(bindparam(f"lane_{at}")), row.c.topic == bindparam(f"topic_{at}"))
            .order_by(row.c.id)
            .limit(bindparam("most"))
            .subquery()
        )
        for at in range(heads)
    ]
    first = union_all(*parts).subquery()
    within: dict[str, Any] = {"partition_by": first.c.lane, "order_by": first.c.id}
    size = first.c.size_bytes
    numbered = select(
        *(first.c[name] for name in READ),
        func.row_number().over(**within).label("number"),
        (func.sum(size).over(**within) - size).label("before"),
    ).subquery()
    return select(*(numbered.c[name] for name in READ)).where(
        numbered.c.number <= bindparam("most"), numbered.c.before <= bindparam("bytes")
    )


_SENT = {"state": RowState.SENT, "ended_at": now_ms()}
# PostgreSQL unpacks arrays, SQLite JSON: one statement for a whole batch in either.
_UNPACKED = (
    func.unnest(
        cast(bindparam("numbers"), ARRAY(BigInteger)),
        cast(bindparam("partitions"), ARRAY(Integer)),
        cast(bindparam("offsets"), ARRAY(BigInteger)),
    )
    .table_valued("number", "partition", "offset", name="marks")
    .render_derived()
)
MARK_POSTGRES = (
    update(row)
    .where(row.c.id == _UNPACKED.c.number, _WAITS)
    .values(**_SENT, partition=_UNPACKED.c.partition, offset=_UNPACKED.c.offset)
)
_EACH = func.json_each(bindparam("marks")).table_valued("value", name="marks")
MARK_SQLITE = (
    update(row)
    .where(row.c.id == func.json_extract(_EACH.c.value, "$[0]"), _WAITS)
    .values(
        **_SENT,
        partition=func.json_extract(_EACH.c.value, "$[1]"),
        offset=func.json_extract(_EACH.c.value, "$[2]"),
    )
)
PARK = (
    update(row)
    .where(row.c.id == bindparam("number"), row.c.state == RowState.WAITING)
    .values(state=RowState.PARKED, ended_at=now_ms(), reason=bindparam("why"))
)
_OF_TOPIC = (
    select(row.c.id)
    .where(
        row.c.group == bindparam("g"),
        row.c.lane.in_(bindparam("lanes", expanding=True)),
        _WAITS,
        row.c.topic == bindparam("of"),
    )
    .limit(bindparam("most"))
)
PARK_TOPIC = (
    update(row)
    .where(row.c.id.in_(_OF_TOPIC))
    .values(state=RowState.PARKED, ended_at=now_ms(), reason=bindparam("why"))
)
WAITS_FOR = _OF_TOPIC.limit(literal_column("1"))
PRUNE = delete(row).where(
    row.c.id.in_(
        select(row.c.id)
        .where(
            row.c.group == bindparam("g"),
            row.c.state == literal_column(f"'{RowState.SENT}'"),
            _HAS_ENDED,
            row.c.ended_at < clock.once() - bindparam("keep"),
        )
        .limit(bindparam("most"))
    )
)
# By the index of waiting rows: one lookup for each group, however many rows it has.
NEXT_GROUP = (
    select(row.c.group)
    .where(row.c.group > bindparam("after"), _WAITS)
    .order_by(row.c.group)
    .limit(literal_column("1"))
)
STANDING = select(func.count(), func.min(row.c.created_at), clock.once()).where(
    row.c.group == bindparam("g"), row.c.state == literal_column(f"'{RowState.WAITING}'")
)
COUNT_PARKED = (
    select(func.count())
    .select_from(row)
    .where(
        row.c.group == bindparam("g"),
        row.c.state == literal_column(f"'{RowState.PARKED}'"),
        _HAS_ENDED,
    )
)


def insert_lanes(dialect: str) -> Any:
    return insert_into(lane, dialect).on_conflict_do_nothing()
