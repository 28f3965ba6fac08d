"""Which requests are in doubt, how many, and since when: a person has to decide about each.

Only the index of the doubts is read: 2,000 among 400,000 rows take PostgreSQL 0.3 ms and 96 kB. The
whole table takes it 140 ms.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select, text, tuple_

from consumer.journal import clock
from consumer.journal.group_journal import GroupJournal
from consumer.journal.history import ROW_COLUMNS
from consumer.journal.records import Row
from consumer.journal.tables import DOUBT, request

PAGE_ROWS = 1000


class DoubtCount(NamedTuple):
    """The open doubts of a topic.

    Args:
        oldest_ms: the age of the oldest, by the database's clock.
    """

    topic: str
    requests: int
    oldest_ms: int


class Doubts(GroupJournal):
    """Reads the open doubts of one group; see `GroupJournal`."""

    def __enter__(self) -> Doubts:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pages(self, *, page_rows: int = PAGE_ROWS) -> Iterator[list[Row]]:
        """Yield the rows in doubt, page by page; one that begins meanwhile may be missed.

        Raises:
            JournalUnavailable: ask again.
        """
        behind: tuple[str, int, str] = ("", -1, "")
        names = ("behind_topic", "behind_time", "behind_id")
        is_last = False
        while not is_last:
            given = {"this_group": self._group, "most": page_rows}
            given |= zip(names, behind, strict=True)
            with self._session.transaction(read_only=True) as connection:
                rows = [Row(*answer) for answer in connection.execute(_PAGE, given).all()]
            if rows:
                last = rows[-1]
                behind = last.topic, last.finished_at or 0, last.request_id
                yield rows
            is_last = len(rows) < page_rows

    def count(self) -> int:
        """Return how many there are.

        Raises:
            JournalUnavailable: ask again.
        """
        with self._session.transaction(read_only=True) as connection:
            return sum(one.requests for one in count_doubts(connection, self._group))


def count_doubts(connection: Connection, group: str) -> list[DoubtCount]:
    """Return the open doubts of a group, by topic; none of those without any."""
    answers = connection.execute(_COUNT, {"this_group": group}).all()
    return [DoubtCount(*answer) for answer in answers]


# Its text is that of the index: only open doubts are read.
_COUNT = (
    select(
        request.c.topic,
        func.count(),
        clock.once() - func.min(request.c.finished_at),
    )
    .where(request.c.group == bindparam("this_group"), text(DOUBT))
    .group_by(request.c.topic)
    .order_by(request.c.topic)
)
_PLACE = request.c.topic, request.c.finished_at, request.c.request_id
_PAGE = (
    select(*ROW_COLUMNS)
    .where(
        request.c.group == bindparam("this_group"),
        text(DOUBT),
        tuple_(*_PLACE)
        > tuple_(bindparam("behind_topic"), bindparam("behind_time"), bindparam("behind_id")),
    )
    .order_by(*_PLACE)
    .limit(bindparam("most"))
)
