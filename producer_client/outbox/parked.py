"""Rows for a person: those that wait, and parked ones that may be tried again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import bindparam, select, update

from feedback.sql.session import Session
from producer_client.outbox.faults import translate
from producer_client.outbox.schema import check_version
from producer_client.outbox.tables import RowState, row


class ShownRow(NamedTuple):
    """A row without its payload; times are epoch milliseconds."""

    id: int
    request_id: str
    topic: str
    state: str
    created_at: int
    ended_at: int | None
    partition: int | None
    offset: int | None
    reason: str | None


class OutboxDesk:
    """The commands of a person on one group's outbox; for one thread."""

    def __init__(self, url: str, *, group: str, timeout_s: float) -> None:
        self._session = Session(url, timeout_s=timeout_s, translate=translate, section="outbox")
        self._group = group

    def rows(self, state: RowState, *, limit: int) -> list[ShownRow]:
        """Return the oldest rows in this state."""
        with self._session.transaction(read_only=True) as connection:
            check_version(connection)
            given = {"g": self._group, "wanted": state, "most": limit}
            return [ShownRow(*one) for one in connection.execute(_ROWS, given)]

    def retry(self, request_ids: Sequence[str]) -> int:
        """Let parked rows wait again; return how many there were.

        Args:
            request_ids: the requests; none for all of the group.
        """
        statement = _RETRY
        if request_ids:
            statement = _RETRY.where(row.c.request_id.in_(list(request_ids)))
        with self._session.transaction() as connection:
            check_version(connection)
            return connection.execute(statement, {"g": self._group}).rowcount

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


_ROWS = (
    select(*(row.c[name] for name in ShownRow._fields))
    .where(row.c.group == bindparam("g"), row.c.state == bindparam("wanted"))
    .order_by(row.c.id)
    .limit(bindparam("most"))
)
_RETRY = (
    update(row)
    .where(row.c.group == bindparam("g"), row.c.state == RowState.PARKED)
    .values(state=RowState.WAITING, ended_at=None, reason=None)
)
