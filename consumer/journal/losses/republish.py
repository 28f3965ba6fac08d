"""Which endings clients are told again when Redis came back empty, and by whom.

One worker of a group does it at a time. Its turn is a row of `onceward_meta`, had by a conditional
update: whose worker has no live lease loses it, and the next one begins again. Which starts of the
Redis server were served is remembered, so that nobody does it twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    bindparam,
    exists,
    or_,
    select,
    update,
)

from consumer.journal import clock
from consumer.journal.clock import now_ms
from consumer.journal.group_journal import GroupJournal
from consumer.journal.history import row_columns
from consumer.journal.open_requests import open_requests, require_complete
from consumer.journal.records import JournalState, Row
from consumer.journal.state_literals import IN_DOUBT
from consumer.journal.tables import meta, request, worker
from feedback.sql.inserting import insert_into
from feedback.status import State

# Endings of requests whose deadline was long over are found as well, but for the rarest: those that
# a person resolved later than this.
MARGIN_MS = 86_400_000
SERVED_LIMIT = 8
_LAST = 2**63 - 1


class WhoseTurn(StrEnum):
    """The turn to write the endings again."""

    MINE = "MINE"
    OTHERS = "OTHERS"
    DONE = "DONE"


@dataclass(frozen=True, slots=True)
class RestoreTurn:
    """The row that says whose turn it is.

    Args:
        worker_id: the worker that has it; empty when none.
        served: the `run_id` of each start of Redis that was served, the last one at the end.
    """

    worker_id: str = ""
    served: tuple[str, ...] = ()

    def released(self, *, served: str | None = None) -> RestoreTurn:
        """Return the row when its holder is done with it, or gives it back."""
        if served is None:
            return replace(self, worker_id="")
        return RestoreTurn("", (*self.served, served)[-SERVED_LIMIT:])


class RestoreCursor(NamedTuple):
    """Where the next page begins: below this deadline (epoch ms) and id.

    Args:
        of_doubts: the pages of open doubts, which come behind those of all endings: their deadlines
            may be long over.
    """

    deadline_at: int = _LAST
    request_id: str = ""
    of_doubts: bool = False


@dataclass(frozen=True, slots=True)
class EndingsPage:
    """Some endings, and where the next page begins: None when this was the last."""

    rows: list[Row]
    following: RestoreCursor | None


class Republication(GroupJournal):
    """Takes turns and reads pages; see `GroupJournal`."""

    def __init__(
        self, url: str, *, group: str, worker_id: str, statement_timeout_s: float = 10.0
    ) -> None:
        super().__init__(url, group=group, statement_timeout_s=statement_timeout_s)
        self._worker_id = worker_id
        self._name = turn_name(group)

    def take_turn(self, run_id: str) -> WhoseTurn:
        """Return whose turn it is to serve this start of Redis; ours, if nobody alive has it."""
        with self._session.transaction() as connection:
            stands = self._read(connection)
            holder = _decoded(stands)
            if run_id in holder.served:
                return WhoseTurn.DONE
            mine = replace(holder, worker_id=self._worker_id)
            taken = (
                self._insert(connection, mine)
                if stands is None
                else self._replace(connection, stands, mine)
            )
            return WhoseTurn.MINE if taken else WhoseTurn.OTHERS

    def end_turn(self, run_id: str | None) -> bool:
        """Give the turn back; False when another worker has it by now.

        Args:
            run_id: the start of Redis that was served; None when it was not, or not to the end.
        """
        with self._session.transaction() as connection:
            stands = self._read(connection)
            holder = _decoded(stands)
            if stands is None or holder.worker_id != self._worker_id:
                return False
            return self._replace(connection, stands, holder.released(served=run_id))

    def page(
        self, cursor: RestoreCursor, *, ttl_ms: Mapping[State, int], limit: int
    ) -> EndingsPage:
        """Return the endings whose time is not over, those of the latest deadlines first.

        A page may have fewer rows than `limit`, or none, and not be the last.

        Args:
            ttl_ms: for how long a status is kept, by its state; a doubt until it is resolved.
            limit: the most rows to look at.
        """
        longest_ms = max(one for state, one in ttl_ms.items() if state is not State.IN_DOUBT)
        parameters = {
            "this_group": self._group,
            "most": limit,
            "oldest": longest_ms + MARGIN_MS,
            "before": cursor.deadline_at,
            "before_id": cursor.request_id,
        }
        with self._session.transaction(read_only=True) as connection:
            if cursor.of_doubts:
                require_complete(connection)
            statement = _pages(connection.dialect.name, of_doubts=cursor.of_doubts)
            found = connection.execute(statement, parameters).all()
        rows = [Row(*answer[1:]) for answer in found]
        following: RestoreCursor | None = RestoreCursor(of_doubts=True)
        if len(found) == limit:
            following = RestoreCursor(rows[-1].deadline_at, rows[-1].request_id, cursor.of_doubts)
        elif cursor.of_doubts:
            following = None
        return EndingsPage(_endings(rows, found[0][0] if found else 0, ttl_ms), following)

    def _read(self, connection: Connection) -> str | None:
        value = connection.execute(select(meta.c.value).where(meta.c.name == self._name)).scalar()
        return None if value is None else str(value)

    def _insert(self, connection: Connection, mine: RestoreTurn) -> bool:
        new = insert_into(meta, self._session.dialect)
        row = new.values(name=self._name, value=_encoded(mine))
        inserted = row.on_conflict_do_nothing().returning(meta.c.name)
        return connection.execute(inserted).first() is not None

    def _replace(self, connection: Connection, stands: str, new: RestoreTurn) -> bool:
        """Change the row if it still stands as it was read, and no other worker alive has it."""
        owner = _decoded(stands).worker_id
        allowed = () if owner == self._worker_id else (~_lives(owner),)
        statement = (
            update(meta)
            .where(meta.c.name == self._name, meta.c.value == stands, *allowed)
            .values(value=_encoded(new))
        )
        return connection.execute(statement).rowcount == 1


def turn_name(group: str) -> str:
    """Return the name in `onceward_meta` of the row that says whose turn it is. The first worker of
    a group makes it, when its heartbeat has been told."""
    return f"republish:{group}"


def _endings(rows: Sequence[Row], now: int, ttl_ms: Mapping[State, int]) -> list[Row]:
    return [
        row
        for row in rows
        if row.state != JournalState.CLAIMED
        and row.finished_at is not None
        and row.finished_at >= now - ttl_ms[State(row.state)]
    ]


def _lives(worker_id: str) -> ColumnElement[bool]:
    return exists().where(worker.c.worker_id == worker_id, worker.c.lease_until > now_ms())


def _encoded(holder: RestoreTurn) -> str:
    return json.dumps(asdict(holder))


def _decoded(value: str | None) -> RestoreTurn:
    if value is None:
        return RestoreTurn()
    stored = json.loads(value)
    return RestoreTurn(stored["worker_id"], tuple(stored["served"]))


@lru_cache
def _pages(dialect: str, *, of_doubts: bool) -> Select[Any]:
    rows = open_requests(dialect) if of_doubts else request
    key = rows.c.deadline_at, rows.c.request_id
    oldest = clock.once() - bindparam("oldest")
    chosen = (rows.c.state == IN_DOUBT, key[0] <= oldest) if of_doubts else (key[0] > oldest,)
    return (
        select(now_ms(), *row_columns(rows))
        .where(
            rows.c.group == bindparam("this_group"),
            *chosen,
            # Said twice, the first time for the index.
            key[0] <= bindparam("before"),
            or_(key[0] < bindparam("before"), key[1] < bindparam("before_id")),
        )
        .order_by(key[0].desc(), key[1].desc())
        .limit(bindparam("most"))
    )
