"""Which requests are in doubt, how many, and since when: a person has to decide about each.

Only the index of the doubts is read: 2,000 among 400,000 rows take PostgreSQL 0.3 ms and 96 kB. The
whole table takes it 140 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from heapq import nlargest
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select, text, tuple_

from consumer.journal import clock
from consumer.journal.group_journal import GroupJournal
from consumer.journal.history import row_columns
from consumer.journal.open_requests import by_index, open_requests, require_complete
from consumer.journal.records import Row
from consumer.journal.sweeps.dead_claims import claimed_by_the_dead
from consumer.journal.tables import DOUBT, worker
from feedback.status import DISOWNED

PAGE_ROWS = 1000
MOST_OWNERS = 20


class DoubtCount(NamedTuple):
    """The open doubts of a topic."""

    topic: str
    requests: int
    oldest_ms: int


class UnsweptClaims(NamedTuple):
    """Claims of a worker without a lease whose effect was entered: not swept yet."""

    worker_id: str
    requests: int
    since: int


class UnsweptFound(NamedTuple):
    """The claims that a sweep is still to settle, and whether there is anybody to sweep.

    Args:
        claims: by worker, the oldest first, of `MOST_OWNERS` at most.
        living: how many workers of the group have a lease.
    """

    claims: list[UnsweptClaims]
    living: int


NOTHING_UNSWEPT = UnsweptFound([], 0)


class Doubts(GroupJournal):
    """Reads the open doubts of one group; see `GroupJournal`."""

    def __enter__(self) -> Doubts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pages(self, *, page_rows: int = PAGE_ROWS) -> Iterator[list[Row]]:
        """Yield the rows in doubt, page by page; one that begins meanwhile may be missed."""
        behind: tuple[str, int, str] = ("", -1, "")
        names = ("behind_topic", "behind_time", "behind_id")
        is_last = False
        while not is_last:
            given = {"this_group": self._group, "most": page_rows}
            given |= zip(names, behind, strict=True)
            with self._session.transaction(read_only=True) as connection:
                require_complete(connection)
                self._go_in_order(connection)
                answers = connection.execute(_page(self._session.dialect), given).all()
            rows = [Row(*answer) for answer in answers]
            if rows:
                last = rows[-1]
                behind = last.topic, last.finished_at or 0, last.request_id
                yield rows
            is_last = len(rows) < page_rows

    def count(self) -> int:
        """Return how many there are."""
        with self._session.transaction(read_only=True) as connection:
            return sum(one.requests for one in count_doubts(connection, self._group))

    def newest(self, most: int) -> tuple[int, list[Row]]:
        """Return how many there are, and so many of the newest."""
        given = {"this_group": self._group, "most": most}
        newest = _newest(self._session.dialect)
        rows: list[Row] = []
        with self._session.transaction(read_only=True) as connection:
            counts = count_doubts(connection, self._group)
            self._go_in_order(connection)
            for one in counts:
                answers = connection.execute(newest, given | {"of_topic": one.topic}).all()
                found = [*rows, *(Row(*answer) for answer in answers)]
                rows = nlargest(most, found, key=lambda row: (row.finished_at, row.request_id))
        return sum(one.requests for one in counts), rows

    def unswept(self) -> UnsweptFound:
        """Return the claims of dead workers that may become doubts.

        Only the index of the claims is read: 100 of dead workers among a million rows take
        PostgreSQL 0.3 ms.
        """
        given = {"this_group": self._group}
        with self._session.transaction(read_only=True) as connection:
            require_complete(connection)
            answers = connection.execute(_unswept(self._session.dialect), given).all()
            living = connection.execute(_LIVING, given).scalar_one()
        claims = [UnsweptClaims(one[0].removesuffix(DISOWNED), *one[1:]) for one in answers]
        return UnsweptFound(claims, living)

    def _go_in_order(self, connection: Connection) -> None:
        """Have the queries of this transaction read along the index, which has their order.

        Without statistics PostgreSQL takes the doubts for a few: it would look up all that are left
        for each page, and sort them. So it ends with the page.
        """
        if self._session.dialect == "postgresql":
            connection.execute(_IN_ORDER)


def count_doubts(connection: Connection, group: str) -> list[DoubtCount]:
    """Return the open doubts of a group, by topic; none of those without any."""
    require_complete(connection)
    answers = connection.execute(_count(connection.dialect.name), {"this_group": group}).all()
    return [DoubtCount(*answer) for answer in answers]


@lru_cache
def _count(dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    wanted = (
        select(rows.c.topic, func.count(), clock.once() - func.min(rows.c.finished_at))
        # Its text is that of the index: only open doubts are read.
        .where(rows.c.group == bindparam("this_group"), text(DOUBT))
        .group_by(rows.c.topic)
        .order_by(rows.c.topic)
    )
    return by_index(wanted, rows, "doubt")


@lru_cache
def _unswept(dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    first = func.min(rows.c.effect_at)
    wanted = (
        select(rows.c.owner, func.count(), first)
        .where(
            rows.c.group == bindparam("this_group"),
            claimed_by_the_dead(rows),
            rows.c.effect_at.is_not(None),
        )
        .group_by(rows.c.owner)
        .order_by(first)
        .limit(MOST_OWNERS)
    )
    return by_index(wanted, rows, "claimed")


@lru_cache
def _page(dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    place = rows.c.topic, rows.c.finished_at, rows.c.request_id
    names = ("behind_topic", "behind_time", "behind_id")
    behind = tuple_(*(bindparam(name) for name in names))
    wanted = (
        select(*row_columns(rows))
        .where(rows.c.group == bindparam("this_group"), text(DOUBT), tuple_(*place) > behind)
        .order_by(*place)
        .limit(bindparam("most"))
    )
    return by_index(wanted, rows, "doubt")


@lru_cache
def _newest(dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    wanted = (
        select(*row_columns(rows))
        .where(
            rows.c.group == bindparam("this_group"),
            text(DOUBT),
            rows.c.topic == bindparam("of_topic"),
        )
        .order_by(rows.c.finished_at.desc(), rows.c.request_id.desc())
        .limit(bindparam("most"))
    )
    return by_index(wanted, rows, "doubt")


_IN_ORDER = text("SET LOCAL enable_sort = off")
_LIVING = (
    select(func.count())
    .select_from(worker)
    .where(worker.c.group == bindparam("this_group"), worker.c.lease_until > clock.now_ms())
)
