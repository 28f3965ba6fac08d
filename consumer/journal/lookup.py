"""Looking requests up for a person: rows, their history, actions of people. Read only."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import and_, select

from consumer.journal import history
from consumer.journal.actions import Action, actions_of
from consumer.journal.appended import AppendMark, append_mark, changed_between
from consumer.journal.batch import SHAPES
from consumer.journal.clock import now_ms
from consumer.journal.group_journal import GroupJournal
from consumer.journal.records import Row
from consumer.journal.redrive.reopening import UnfinishedRedrive, unfinished_redrives
from consumer.journal.tables import request, run, worker

SAMPLE_ROWS = 1000


class PastRun(NamedTuple):
    """A run that another one has followed; times in epoch ms."""

    generation: int
    attempt: int
    owner: str
    topic: str
    partition: int
    offset: int
    claimed_at: int | None
    effect_at: int | None
    ended_at: int | None
    outcome: str
    by_whom: str
    allowed_by: str | None


class LeaseRow(NamedTuple):
    """A worker's lease, by the database's clock."""

    until: int
    since: int
    now: int


_PAST_RUN = tuple(run.c[name] for name in PastRun._fields)


class Lookup(GroupJournal):
    """The journal of one group, for reading only; see `GroupJournal`."""

    _shapes = SHAPES

    def __enter__(self) -> Lookup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, request_ids: Collection[str]) -> tuple[dict[str, Row], int]:
        """Return the rows of those requests that have one, by id, and the database's clock.

        That is in epoch ms, and 0 where there is no row that it could be compared with.
        """
        if not request_ids:
            return {}, 0
        with self._session.transaction(read_only=True) as connection:
            return history.read_rows(connection, self._group, request_ids)

    def actions(self, request_ids: Collection[str]) -> dict[str, list[Action]]:
        """Return the actions of people on these requests, by id, oldest first."""
        if not request_ids:
            return {}
        with self._session.transaction(read_only=True) as connection:
            return actions_of(connection, self._group, request_ids)

    def topics(self) -> frozenset[str]:
        """Return the topics of the last `SAMPLE_ROWS` requests, by id: the newest, for UUIDv7.

        Of a group with more requests and other ids it is a sample.
        """
        own = select(request.c.topic).where(request.c.group == self._group)
        sample = own.order_by(request.c.request_id.desc()).limit(SAMPLE_ROWS)
        with self._session.transaction(read_only=True) as connection:
            return frozenset(connection.execute(sample).scalars())

    def runs(self, request_id: str, *, limit: int = 1000) -> list[PastRun]:
        """Return the earlier runs of a request, the first of them first."""
        own = and_(run.c.group == self._group, run.c.request_id == request_id)
        statement = select(*_PAST_RUN).where(own).order_by(run.c.id).limit(limit)
        with self._session.transaction(read_only=True) as connection:
            return [PastRun(*found) for found in connection.execute(statement).all()]

    def lease(self, worker_id: str) -> LeaseRow | None:
        """Return a worker's lease; None without one: it was released, or never taken."""
        own = and_(worker.c.group == self._group, worker.c.worker_id == worker_id)
        statement = select(worker.c.lease_until, worker.c.started_at, now_ms()).where(own)
        with self._session.transaction(read_only=True) as connection:
            found = connection.execute(statement).one_or_none()
        return None if found is None else LeaseRow(*found)

    def unfinished(self) -> list[UnfinishedRedrive]:
        """Return the redrives that may have left requests unsent, the oldest first."""
        with self._session.transaction(read_only=True) as connection:
            return unfinished_redrives(connection, self._group)

    def append_mark(self) -> AppendMark:
        """Return how far runs and actions are appended now; see `consumer.journal.appended`."""
        with self._session.transaction(read_only=True) as connection:
            return append_mark(connection)

    def changed_between(self, since: AppendMark, until: AppendMark) -> frozenset[str] | None:
        """Return the ids of the requests that were changed between; None where any may be."""
        with self._session.transaction(read_only=True) as connection:
            return changed_between(connection, self._group, since, until)
