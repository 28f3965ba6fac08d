"""The later requests of the same key and topic as a failure, by how they stand. Read only.

A client that was told FAILED may have asked anew, under another id: sending the failed one back
would then have the effect a second time. That holds where the other has failed as well, too: both
may be sent back, together or by two people.

It is for questions of a person that no index serves. A statement reads one span of
`onceward_request_deadline`, however few of its rows match, so none runs into the time limit of a
statement. A span has more than `SPAN_ROWS` rows only where they have the same deadline to the
millisecond.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    not_,
    or_,
    select,
)

from consumer.journal import history
from consumer.journal.actions import ActionKind
from consumer.journal.batch import RUNS, SHAPES
from consumer.journal.clock import now_ms, once
from consumer.journal.group_journal import GroupJournal
from consumer.journal.records import JournalState
from consumer.journal.tables import action, request, run

# Measured on a PostgreSQL with 1,000,000 rows: the two statements of a span take 7 ms.
SPAN_ROWS = 20_000
FIRST, LAST = -1, 2**63 - 1


class DeadlineSpan(NamedTuple):
    """Deadlines behind `after`, up to `until`, in epoch ms."""

    after: int
    until: int


def next_span(
    connection: Connection,
    group: str,
    *,
    after: int = FIRST,
    until: int = LAST,
    rows: int = SPAN_ROWS,
) -> DeadlineSpan:
    """Return the next span behind `after`; with fewer than `rows` left it ends at `until`."""
    given = {"this_group": group, "after": after, "until": until, "before_it": rows - 1}
    end = connection.execute(_END, given).scalar()
    return DeadlineSpan(after, until if end is None else end)


def in_span() -> ColumnElement[bool]:
    """Return the condition that a row is in the span of the parameters `span_parameters`."""
    return and_(
        request.c.group == bindparam("this_group"),
        request.c.deadline_at > bindparam("after"),
        request.c.deadline_at <= bindparam("until"),
    )


def span_parameters(group: str, span: DeadlineSpan) -> dict[str, object]:
    """Return the parameters of `in_span`."""
    return {"this_group": group, "after": span.after, "until": span.until}


_END = (
    select(request.c.deadline_at)
    .where(in_span())
    .order_by(request.c.deadline_at)
    .offset(bindparam("before_it"))
    .limit(1)
)


# Of each failure so many are named.
MOST_NAMED = 3
# So many rows of the journal are looked through for one answer.
MOST_READ = 200_000
# A request that was sent after a failure has its deadline behind it. It is looked for until here.
REACH_MS = 7 * 86_400_000
# Failures that lie close to each other are looked at together.
MOST_STRETCHES = 50


class FailedOnce(NamedTuple):
    """A request that failed.

    Args:
        since: when its client was first told FAILED or IN_DOUBT, in epoch ms.
    """

    request_id: str
    topic: str
    key: bytes
    since: int


class NamedLater(NamedTuple):
    """The later requests of failures, by how they stand.

    Args:
        of: ids of requests that succeeded, by the failed request; at most `MOST_NAMED` of each.
            A failure without any is left out.
        is_whole: whether all rows in reach were looked through; else those of the newest failures.
        undecided: as `of`, ids of requests that run, wait to run again, are in doubt, or were sent
            back and may run before their deadline.
        failed: as `of`, ids of requests that failed too, and may be sent back.
    """

    of: Mapping[str, Sequence[str]]
    is_whole: bool
    undecided: Mapping[str, Sequence[str]] = MappingProxyType({})
    failed: Mapping[str, Sequence[str]] = MappingProxyType({})

    @property
    def names_any(self) -> bool:
        """Whether a failure may be followed by its effect under another id."""
        return bool(self.of or self.undecided or self.failed)


NOTHING_LATER = NamedLater({}, is_whole=True)


class _LaterRequest(NamedTuple):
    """A row of `_LATER`.

    Args:
        began_at: of one that is on its way: now, since its run is still to come.
    """

    request_id: str
    state: str
    topic: str
    key: bytes
    is_on_its_way: bool
    began_at: int


class _Naming:
    """Names later requests of one kind, at most `MOST_NAMED` of each failure.

    A failure that has its names is looked at no more: of one key there may be many thousands.
    """

    def __init__(self, failures: Iterable[FailedOnce]) -> None:
        self.named: dict[str, list[str]] = {}
        self._left: dict[tuple[str, bytes], list[FailedOnce]] = {}
        for one in sorted(failures, key=_since):
            self._left.setdefault((one.topic, one.key), []).append(one)

    def add(self, later: _LaterRequest) -> None:
        """Name a request at each failure before it, but its own."""
        left = self._left.get((later.topic, later.key), [])
        before = bisect_right(left, later.began_at, key=_since)
        still = []
        for one in left[:before]:
            ids = self.named.get(one.request_id, [])
            if one.request_id != later.request_id:
                self.named[one.request_id] = ids = [*ids, later.request_id]
            if len(ids) < MOST_NAMED:
                still.append(one)
        left[:before] = still


def _since(one: FailedOnce) -> int:
    return one.since


class _Found:
    """The later requests of failures, by how they stand."""

    def __init__(self, failures: Sequence[FailedOnce]) -> None:
        self.keys = sorted({one.key for one in failures})
        self.succeeded, self.undecided, self.failed = (_Naming(failures) for _ in range(3))

    def add(self, later: _LaterRequest) -> None:
        """Name a request among those of its kind."""
        is_failed = later.state == JournalState.FAILED and not later.is_on_its_way
        if later.state == JournalState.SUCCEEDED:
            self.succeeded.add(later)
        else:
            (self.failed if is_failed else self.undecided).add(later)

    def so_far(self, *, is_whole: bool) -> NamedLater:
        """Return what was found."""
        named = self.succeeded.named, is_whole, self.undecided.named, self.failed.named
        return NamedLater(*named)


class LaterRequests(GroupJournal):
    """Looks for later requests in the journal of one group; see `GroupJournal`."""

    _shapes = SHAPES

    def __enter__(self) -> LaterRequests:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def of(self, request_ids: Collection[str], *, most_read: int = MOST_READ) -> NamedLater:
        """Return the later requests of those that are FAILED and have a key.

        No index has the keys. By `onceward_request_deadline` the rows are read whose deadline lies
        up to `REACH_MS` behind the failure, the newest failures first; then those that may still
        run, since one that was sent back has a new deadline.

        Not found: a request with a longer deadline, one without its key, one on another topic, one
        of another group, one that was pruned, and whatever lies behind `most_read` rows, which
        `is_whole` tells.

        Args:
            most_read: rows of the journal.
        """
        if not request_ids:
            return NamedLater({}, is_whole=True)
        with self._session.transaction(read_only=True) as connection:
            failures = _failures(connection, self._group, request_ids)
            now: int = connection.execute(select(now_ms())).scalar_one()
        found = _Found(failures)
        left = most_read
        slices = [*time_slices([one.since for one in failures])]
        slices += [(max(slices[0][1], now - 1), LAST)] if slices else []
        for after, until in slices:
            while after < until:
                if left <= 0:
                    return found.so_far(is_whole=False)
                rows = min(left, SPAN_ROWS)
                after = self._look(found, after=after, until=until, rows=rows)
                left -= rows
        return found.so_far(is_whole=True)

    def _look(self, found: _Found, *, after: int, until: int, rows: int) -> int:
        """Add the requests of the next span; return its end."""
        with self._session.transaction(read_only=True) as connection:
            span = next_span(connection, self._group, after=after, until=until, rows=rows)
            given = span_parameters(self._group, span) | {"keys": found.keys}
            for row in connection.execute(_LATER, given).all():
                found.add(_LaterRequest(*row))
        return span.until


def time_slices(since: Collection[int], *, reach_ms: int = REACH_MS) -> Iterator[tuple[int, int]]:
    """Yield what to look through, (after, until], the newest first and nothing twice. Pure.

    >>> list(time_slices([10, 50, 12], reach_ms=20))
    [(49, 70), (11, 32), (9, 11)]
    """
    newest_first = sorted(set(since), reverse=True)
    size = -(-len(newest_first) // MOST_STRETCHES)
    begun: int | None = None
    for at in range(0, len(newest_first), max(1, size)):
        part = newest_first[at : at + size]
        until = part[0] + reach_ms
        after = part[-1] - 1
        yield after, until if begun is None else min(until, begun)
        begun = after


def _failures(connection: Connection, group: str, request_ids: Collection[str]) -> list[FailedOnce]:
    rows, _ = history.read_rows(connection, group, request_ids)
    if not rows:
        return []
    parameters = RUNS.load(connection, [(group, name, 0) for name in sorted(rows)])
    answers = connection.execute(_first_ends(connection.dialect.name), parameters).all()
    first: dict[str, int | None] = {answer[0]: answer[1] for answer in answers}
    return [
        FailedOnce(name, row.topic, bytes(row.message_key), first.get(name) or row.finished_at)
        for name, row in rows.items()
        if row.state == JournalState.FAILED and row.message_key is not None and row.finished_at
    ]


@lru_cache
def _first_ends(dialect: str) -> Select[Any]:
    """Return the statement for the first end of each that its client took for no success.

    A doubt counts: the row of a resolved one has the time of the decision alone.
    """
    batch = RUNS.source(dialect)
    of_batch = and_(run.c.group == batch.c.group, run.c.request_id == batch.c.request_id)
    return (
        select(run.c.request_id, func.min(run.c.ended_at))
        .join_from(batch, run, of_batch)
        .where(run.c.outcome.in_((JournalState.FAILED.value, JournalState.IN_DOUBT.value)))
        .group_by(run.c.request_id)
    )


_MATTERS = [
    state.value
    for state in (
        JournalState.SUCCEEDED,
        JournalState.CLAIMED,
        JournalState.RETRYING,
        JournalState.IN_DOUBT,
        JournalState.FAILED,
    )
]
# As `redrive_rule.decide` has it.
_ON_ITS_WAY = and_(
    request.c.state == JournalState.FAILED.value,
    request.c.resend == literal_column("1"),
    request.c.deadline_at > once(),
)


def _last_of(*kinds: ActionKind) -> ColumnElement[int]:
    """Return the id of the last action of these kinds.

    No column: for the largest id PostgreSQL may read the whole table by its key, from its end on.
    """
    is_one = action.c.action.in_([one.value for one in kinds])
    return func.coalesce(func.max(case((is_one, action.c.id))), literal_column("0"))


# As `redrive_rule.is_discarded` has it. Two discards of a failure that nothing has undone in
# between do not happen.
_IS_DISCARDED = (
    select(_last_of(ActionKind.DISCARD) > _last_of(ActionKind.CANCEL, ActionKind.UNDO))
    .where(
        action.c.group == request.c.group,
        action.c.request_id == request.c.request_id,
        action.c.generation == request.c.generation,
    )
    .scalar_subquery()
)
_IS_OPEN = or_(request.c.state != JournalState.FAILED.value, _ON_ITS_WAY, not_(_IS_DISCARDED))
_LATER = (
    select(
        request.c.request_id,
        request.c.state,
        request.c.topic,
        request.c.message_key,
        _ON_ITS_WAY,
        # A doubt about a request that was pruned has no claim any more, a refusal has none.
        case(
            (_ON_ITS_WAY, once()),
            else_=func.coalesce(request.c.claimed_at, request.c.finished_at),
        ),
    )
    .where(
        in_span(),
        request.c.state.in_(_MATTERS),
        request.c.message_key.in_(bindparam("keys", expanding=True)),
        _IS_OPEN,
    )
    .order_by(request.c.deadline_at)
)
