"""Which requests runs and people have changed since a moment, by the rows that they have appended.

Whoever overwrites the end of a run appends that run to `onceward_run`, and the decision of a person
is a row of `onceward_action`, each in its own transaction. Their numbers grow, so both are read
from a number on, by the key, whatever the sizes of these tables.

Not told: a first run, which overwrites nothing, and the end of a run that has begun; rows that were
pruned; and rows that were appended before the moment by a transaction that ends after it. So a
reader goes back to a moment before its last look, and looks at all requests now and then.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, Table, bindparam, func, select, union

from consumer.journal.tables import action, run

# Reading so many takes 50 ms. For more, a look at all requests is as cheap.
MOST_APPENDED = 50_000


class AppendMark(NamedTuple):
    """The highest numbers of a moment, of both tables; 0 where one is empty."""

    run: int
    action: int


def append_mark(connection: Connection) -> AppendMark:
    """Return that of now."""
    found = connection.execute(_MARK).one()
    return AppendMark(found[0], found[1])


def changed_between(
    connection: Connection, group: str, since: AppendMark, until: AppendMark
) -> frozenset[str] | None:
    """Return the ids of the requests of a group that were changed between two moments.

    Returns:
        None where too many were, or where the numbers have fallen: the database has lost commits.
    """
    steps = [after - before for before, after in zip(since, until, strict=True)]
    if min(steps) < 0 or sum(steps) > MOST_APPENDED:
        return None
    if not any(steps):
        return frozenset()
    given = {
        "this_group": group,
        **{f"{name}_after": number for name, number in since._asdict().items()},
        **{f"{name}_until": number for name, number in until._asdict().items()},
    }
    return frozenset(connection.execute(_CHANGED, given).scalars())


_MARK: Select[Any] = select(
    *(func.coalesce(select(func.max(table.c.id)).scalar_subquery(), 0) for table in (run, action))
)


def _changed_in(table: Table, name: str) -> Select[Any]:
    return select(table.c.request_id).where(
        # Written so that no planner takes the index that begins with the group.
        table.c.group.concat("") == bindparam("this_group"),
        table.c.id > bindparam(f"{name}_after"),
        table.c.id <= bindparam(f"{name}_until"),
        table.c.request_id.is_not(None),
    )


_CHANGED = union(_changed_in(run, "run"), _changed_in(action, "action"))
