"""How many requests of each topic are claimed, and how many wait for their next run.

The index of each of the two finds them, and so many rows are read at most: where a counterparty is
down, a million may wait.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, func, select, text

from consumer.journal.group_journal import GroupJournal
from consumer.journal.open_requests import by_index, open_requests, require_complete
from consumer.journal.tables import CLAIMED, RETRYING

MOST_ROWS = 50_000


class TopicLoad(NamedTuple):
    """The requests of a topic that a worker has claimed, and those that wait for their next run.

    Args:
        claimed: a dead worker's among them, until a sweep.
        next_due_at: epoch ms at which the first of these is due; None where none waits.
    """

    claimed: int = 0
    retrying: int = 0
    next_due_at: int | None = None


class LoadsFound(NamedTuple):
    """The loads of a group's topics.

    Args:
        by_topic: of each that has any.
        is_whole: all were counted; else the first due `MOST_ROWS` of a kind.
    """

    by_topic: dict[str, TopicLoad]
    is_whole: bool


class TopicLoads(GroupJournal):
    """Counts the requests of one group; see `GroupJournal`."""

    def find(self) -> LoadsFound:
        """Return the load of each topic."""
        given, dialect = {"this_group": self._group, "most": MOST_ROWS}, self._session.dialect
        with self._session.transaction(read_only=True) as connection:
            require_complete(connection)
            claimed = connection.execute(_count(dialect, CLAIMED), given).all()
            waiting = connection.execute(_count(dialect, RETRYING), given).all()
        found = {topic: TopicLoad(claimed=count) for topic, count, _ in claimed}
        for topic, count, due_at in waiting:
            load = found.get(topic, TopicLoad())
            found[topic] = load._replace(retrying=count, next_due_at=due_at)
        sums = [sum(one[1] for one in counted) for counted in (claimed, waiting)]
        return LoadsFound(found, is_whole=max(sums) < MOST_ROWS)


@lru_cache
def _count(dialect: str, condition: str) -> Select[Any]:
    rows = open_requests(dialect)
    wanted = (
        select(rows.c.topic, rows.c.due_at)
        # Its text is that of the index.
        .where(rows.c.group == bindparam("this_group"), text(condition))
        .order_by(rows.c.due_at if condition == RETRYING else rows.c.owner)
        .limit(bindparam("most"))
    )
    some = by_index(wanted, rows, "retrying" if condition == RETRYING else "claimed").subquery()
    counted = select(some.c.topic, func.count(), func.min(some.c.due_at))
    return counted.group_by(some.c.topic)
