"""Rows that wait for a record about them: found, gone through, and closed (docs: Kafka records).

A row waits while the condition of its partial index holds. Its owner writes the record; when that
has no live lease, whoever sweeps. Two that write the same one at the same time do no harm: a reader
knows a record by the id in its header.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    Table,
    Update,
    bindparam,
    case,
    func,
    or_,
    select,
    text,
)

from consumer.journal import clock
from consumer.journal.batch import RUNS, SHAPES
from consumer.journal.claims.takeover import owner_lives
from consumer.journal.group_journal import GroupJournal
from consumer.journal.history import ROW_COLUMNS, row_columns
from consumer.journal.open_requests import open_requests, require_complete
from consumer.journal.pacing import EVER_MS
from consumer.journal.records import Row
from consumer.journal.sweeps.sweep import take_turn


class OwedCount(NamedTuple):
    """How many requests of one topic wait for their records.

    Args:
        mine: how many of them are this worker's.
    """

    topic: str
    requests: int
    oldest_ms: int
    mine: int


class OwedRow(NamedTuple):
    """A row that waits for the record about it.

    Args:
        first_failed_at: epoch ms of the end of its first run, where the history has one; of a row
            that waits for its dead letter.
    """

    row: Row
    first_failed_at: int | None = None


class OwedCursor(NamedTuple):
    """Where the next page begins: behind this end (epoch ms) and id."""

    finished_at: int = -1
    request_id: str = ""


@dataclass(frozen=True, eq=False)
class OwedKind:
    """The kinds of work that rows wait for.

    Args:
        name: of the turn that workers take for the dead.
        index: the condition of the partial index, in its own words: else SQLite would not take it.
        further: the further conditions on the rows of a table that are due now.
        columns: its further columns to read, for the fields of `OwedRow` behind the row.
        closing: the statement that notes that a batch waits no longer, for each database.
    """

    name: str
    index: str
    further: Callable[[Table], tuple[ColumnElement[bool], ...]]
    columns: Callable[[Table], tuple[ColumnElement[Any], ...]]
    closing: Callable[[str], Update]


class WaitingRows(GroupJournal):
    """The rows that wait, in the order of their ends; see `GroupJournal`.

    Attributes:
        kind: the work they wait for.
    """

    kind: ClassVar[OwedKind]
    _shapes = SHAPES

    def __init__(
        self,
        url: str,
        *,
        group: str,
        worker_id: str,
        statement_timeout_s: float = 10.0,
    ) -> None:
        super().__init__(url, group=group, statement_timeout_s=statement_timeout_s)
        self._worker_id = worker_id

    def waiting(self, within_ms: int = EVER_MS) -> list[OwedCount]:
        """Return the waiting rows of the whole group, by topic.

        Args:
            within_ms: how long ago it has ended at most.
        """
        parameters = {
            "this_group": self._group,
            "this_worker": self._worker_id,
            "within": within_ms,
        }
        with self._session.transaction(read_only=True) as connection:
            require_complete(connection)
            statement = _count_waiting(self.kind, self._session.dialect)
            answers = connection.execute(statement, parameters).all()
        return [OwedCount(*answer) for answer in answers]

    def take_turn(self, every_ms: int) -> bool:
        """Whether this worker is the one to write for the dead now."""
        with self._session.transaction() as connection:
            return take_turn(connection, f"{self.kind.name}:{self._group}", every_ms)

    def page(
        self,
        cursor: OwedCursor,
        *,
        topics: Collection[str],
        limit: int,
        of_the_dead: bool,
        within_ms: int = EVER_MS,
    ) -> list[OwedRow]:
        """Return the waiting rows behind the cursor, the oldest first.

        Args:
            of_the_dead: whether rows of workers without a live lease count as well, or only mine.
            within_ms: how long ago it has ended at most.
        """
        parameters = {
            "this_group": self._group,
            "this_worker": self._worker_id,
            "these_topics": sorted(topics),
            "after": cursor.finished_at,
            "after_id": cursor.request_id,
            "most": limit,
            "within": within_ms,
        }
        width = len(ROW_COLUMNS)
        with self._session.transaction(read_only=True) as connection:
            require_complete(connection)
            statement = _page(self.kind, self._session.dialect, of_the_dead)
            found = connection.execute(statement, parameters).all()
        return [OwedRow(Row(*answer[:width]), *answer[width:]) for answer in found]

    def close_case(self, names: Collection[tuple[str, int]]) -> None:
        """Note that these, by (request_id, generation), wait no longer, where they still do."""
        if not names:
            return
        with self._session.transaction() as connection:
            rows = [(self._group, *name) for name in sorted(set(names))]
            parameters = RUNS.load(connection, rows)
            connection.execute(self.kind.closing(connection.dialect.name), parameters)


def _ended_within(rows: Table) -> ColumnElement[bool]:
    return rows.c.finished_at >= clock.once() - bindparam("within")


@lru_cache
def _count_waiting(kind: OwedKind, dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    is_mine = case((rows.c.owner == bindparam("this_worker"), 1), else_=0)
    return (
        select(
            rows.c.topic,
            func.count(),
            clock.once() - func.min(rows.c.finished_at),
            func.sum(is_mine, type_=BigInteger()),
        )
        .where(
            rows.c.group == bindparam("this_group"),
            text(kind.index),
            *kind.further(rows),
            _ended_within(rows),
        )
        .group_by(rows.c.topic)
    )


@lru_cache
def _page(kind: OwedKind, dialect: str, of_the_dead: bool) -> Select[Any]:
    rows = open_requests(dialect)
    mine = rows.c.owner == bindparam("this_worker")
    key = rows.c.finished_at, rows.c.request_id
    return (
        select(*row_columns(rows), *kind.columns(rows))
        .where(
            rows.c.group == bindparam("this_group"),
            text(kind.index),
            *kind.further(rows),
            _ended_within(rows),
            # Said twice, the first time for the index.
            key[0] >= bindparam("after"),
            or_(key[0] > bindparam("after"), key[1] > bindparam("after_id")),
            rows.c.topic.in_(bindparam("these_topics", expanding=True)),
            or_(mine, ~owner_lives(rows)) if of_the_dead else mine,
        )
        .order_by(*key)
        .limit(bindparam("most"))
    )
