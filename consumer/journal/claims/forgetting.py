"""Pruning leaves marks: the offset below which rows were deleted, so that none runs again.

A record with a deadline of its own is safe without marks: no claim is granted past it, and no row
is pruned before it. A record without one gets its deadline from its timestamp, or, without a
timestamp, from the time of its reading. Such a record may get a new deadline when it is read again
after its row was pruned: `deadline_s` has grown, or it has no timestamp. So pruning stores two
values for each partition, in the transaction that deletes: the offset behind the last pruned
record, and the latest deadline among them. A record below that offset whose timestamp is no later
than that deadline has had its time.

Such a record is not EXPIRED, even if its own deadline is over: EXPIRED tells the caller that it has
not run, and most pruned requests have. It is IN_DOUBT, since nobody knows any more.

Its own time is asked as well since a topic that was made anew begins again at offset 0.

A resend lies behind the marks, and names the deadline of that last reading. So it says which record
it repeats (`onceward-first`), and is judged by that place and that time, too. ACCEPTED tells the
place before the offset is committed: if the worker dies after that, whoever sends the request again
knows it. A resend that says nothing of it, of an older sender, is judged by its own place alone.

A Redis that came back older may tell of a run of a pruned request. Its status names the place of
the first record, which is judged by the marks too. Such a run is no trace of a lost claim, and does
not go on: its request is IN_DOUBT, also where a late reading has made a row of it (EXPIRED).

A worker that ran the request may remember how it ended, and writes that again where the row is
gone. A failure may have been followed by a run on another worker that was pruned with it. So every
remembered end but a success becomes IN_DOUBT too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, case, null, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from consumer.journal.batch import CLAIMS
from consumer.journal.clock import now_ms
from consumer.journal.history import ROW_COLUMNS, same_run
from consumer.journal.records import FORGOTTEN, Claim, JournalState, OwnRun
from consumer.journal.tables import forgotten, request
from feedback.kafka.values import Partition
from feedback.records.envelope import FirstPlace
from feedback.sql.inserting import insert_into

MESSAGE = "it was read once more after its outcome had been pruned: it may have run"


class PruneMark(NamedTuple):
    """How far a partition was forgotten.

    Args:
        next_offset: behind the last record of which a row was forgotten.
    """

    next_offset: int
    deadline_at: int


def is_forgotten(claim: Claim, marks: Mapping[Partition, PruneMark]) -> bool:
    """Return whether a record, or the first that it repeats, may be one of a forgotten outcome.

    >>> one = Claim("a", "t", 0, 5, None, "", 1, 0, "marked", sent_at=-1)
    >>> [is_forgotten(one, {("t", 0): PruneMark(next_offset, 0)}) for next_offset in (5, 6)]
    [False, True]
    >>> first = FirstPlace("t", 0, 5, -1)
    >>> again = one._replace(offset=9, deadline_at=99, sent_at=None, first=first)
    >>> is_forgotten(again, {("t", 0): PruneMark(6, 0)})
    True
    """
    own = FirstPlace(claim.topic, claim.partition, claim.offset, claim.sent_at)
    places = (own,) if claim.first is None else (own, claim.first)
    return any(
        _lies_before(claim, place, marks.get((place.topic, place.partition))) for place in places
    )


def _lies_before(claim: Claim, place: FirstPlace, mark: PruneMark | None) -> bool:
    if mark is None or place.offset >= mark.next_offset:
        return False
    at = claim.deadline_at if place.sent_at is None else place.sent_at
    return at <= mark.deadline_at


def find_marks(
    connection: Connection, group: str, claims: Iterable[Claim]
) -> Mapping[Partition, PruneMark]:
    topics = {claim.topic for claim in claims}
    columns = forgotten.c
    found = connection.execute(
        select(columns.topic, columns.partition, columns.next_offset, columns.deadline_at).where(
            columns.group == group, columns.topic.in_(sorted(topics))
        )
    )
    return {(topic, number): PruneMark(*mark) for topic, number, *mark in found.all()}


def forgotten_among(connection: Connection, group: str, claims: Collection[Claim]) -> set[str]:
    """Return which of these requests, none of which has a row, may have been forgotten."""
    if not claims:
        return set()
    marks = find_marks(connection, group, claims)
    return {one.request_id for one in claims if is_forgotten(one, marks)}


def as_forgotten(one: OwnRun) -> OwnRun:
    """Return a run as the end of a request that may have been forgotten after it. Pure."""
    return one if one.finish is None else one.in_doubt(FORGOTTEN, MESSAGE)


@lru_cache
def doubt_forgotten(dialect: str) -> ReturningUpdate[Any]:
    """Return the update that takes back first claims of a moment ago; it answers whole rows."""
    return (
        update(request)
        .where(same_run(CLAIMS.source(dialect)))
        .values(
            state=JournalState.IN_DOUBT.value,
            claimed_at=null(),
            effect_at=null(),
            finished_at=now_ms(),
            code=FORGOTTEN,
            message=MESSAGE,
        )
        .returning(*ROW_COLUMNS)
    )


def remember(
    connection: Connection, group: str, ended: Iterable[tuple[str, int, int, int]]
) -> None:
    """Keep how far is forgotten with these.

    Args:
        ended: (topic, partition, offset, deadline) of rows that are deleted.
    """
    marks: dict[Partition, PruneMark] = {}
    for topic, partition, offset, deadline_at in ended:
        mark = marks.get((topic, partition), PruneMark(0, 0))
        marks[topic, partition] = PruneMark(
            max(mark.next_offset, offset + 1), max(mark.deadline_at, deadline_at)
        )
    if not marks:
        return
    rows = [
        {"group": group, "topic": topic, "partition": partition, **mark._asdict()}
        # Two that prune at once lock the same rows in the same order.
        for (topic, partition), mark in sorted(marks.items())
    ]
    connection.execute(_remember(connection.dialect.name), rows)


@lru_cache
def _remember(dialect: str) -> Any:
    statement = insert_into(forgotten, dialect).values(pruned_at=now_ms())
    new, key = statement.excluded, ["group", "topic", "partition"]
    later = {
        name: case((new[name] > forgotten.c[name], new[name]), else_=forgotten.c[name])
        for name in ("next_offset", "deadline_at")
    }
    return statement.on_conflict_do_update(
        index_elements=key, set_={**later, "pruned_at": new.pruned_at}
    )
