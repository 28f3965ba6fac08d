"""Reopens failures for a redrive, for a whole batch within one transaction (docs: The guarantee).

A reopened row is FAILED with `resend` and a new deadline: so the ordinary rule of claims lets the
next attempt in, once, whoever sends it first, and a worker needs to know nothing of redrives. Its
columns about the run stay until that claim, which appends the run to the history and clears the
effect.

Whoever dies between the commit that takes a batch and the batch's send leaves requests that only a
resume of that redrive sends: a failure that a new request replaces reads as discarded until then.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Connection, bindparam, literal_column, null, select
from sqlalchemy.sql.dml import ReturningUpdate

from consumer.journal.actions import (
    Action,
    ActionKind,
    NewAction,
    actions_of,
    locked_actions_of,
    note,
)
from consumer.journal.batch import RUNS
from consumer.journal.clock import now_ms
from consumer.journal.history import ROW_COLUMNS, read_rows, update_runs
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive.redrive_row import DONE
from consumer.journal.redrive.redrive_rule import (
    Redrivable,
    RedriveCandidate,
    RedriveWish,
    decide,
    sent_before_count,
)
from consumer.journal.tables import redrive, request

_TAKES = frozenset({ActionKind.REDRIVE, ActionKind.DISCARD})
_OF_A_LETTER = _TAKES | {ActionKind.CANCEL, ActionKind.UNDO}


class UnfinishedRedrive(NamedTuple):
    """A redrive that is not done, and has taken requests.

    Args:
        state: running or cancelled.
        owner: the process that goes on with it; None where nobody does.
        silent_ms: how long ago its process last wrote, by the database's clock.
        requests: those that it has taken, and whose records Kafka may lack.
    """

    redrive_id: str
    state: str
    owner: str | None
    silent_ms: int
    requests: frozenset[str]

    def has(self, request_id: str) -> bool:
        """Whether a request is one of them, or the new request in place of one."""
        new = (replacement_id(self.redrive_id, one) for one in self.requests)
        return request_id in self.requests or request_id in new


def unfinished_redrives(connection: Connection, group: str) -> list[UnfinishedRedrive]:
    """Return the redrives that may have left requests unsent, the oldest first."""
    found = []
    for answer in connection.execute(_UNFINISHED, {"this_group": group}).all():
        names = json.loads(answer.unconfirmed)
        new = {one: replacement_id(answer.redrive_id, one) for one in names}
        rows, _ = read_rows(connection, group, [*names, *new.values()])
        actions = actions_of(connection, group, names)
        unsent = frozenset(
            one
            for one in names
            if may_be_unsent(
                answer.redrive_id,
                rows.get(one),
                actions.get(one, ()),
                is_replaced=new[one] in rows,
            )
        )
        if unsent:
            facts = (answer.redrive_id, answer.state, answer.owner, answer.silent_ms)
            found.append(UnfinishedRedrive(*facts, unsent))
    return found


def may_be_unsent(
    redrive_id: str, row: Row | None, actions: Sequence[Action], *, is_replaced: bool
) -> bool:
    """Return whether a redrive has taken a request, and nothing shows that it was sent. Pure.

    Args:
        actions: those on the request, oldest first.
        is_replaced: whether the new request in its place has a row.
    """
    of_it = [
        one
        for one in actions
        # A row that was pruned since leaves its actions.
        if one.action in _OF_A_LETTER and (row is None or one.generation == row.generation)
    ]
    if not of_it or of_it[-1].redrive_id != redrive_id or of_it[-1].action not in _TAKES:
        return False
    if of_it[-1].action == ActionKind.DISCARD:
        return not is_replaced
    return row is None or (row.state == JournalState.FAILED and row.resend)


_UNFINISHED = (
    select(
        redrive.c.redrive_id,
        redrive.c.state,
        redrive.c.owner,
        redrive.c.unconfirmed,
        (now_ms() - redrive.c.updated_at).label("silent_ms"),
    )
    .where(
        redrive.c.group == bindparam("this_group"),
        redrive.c.state != DONE,
        redrive.c.unconfirmed != "[]",
    )
    .order_by(redrive.c.started_at, redrive.c.redrive_id)
)


TO_SEND = frozenset({Redrivable.SEND, Redrivable.SEND_UNKNOWN, Redrivable.AGAIN})
_REPLACEMENTS = uuid.UUID("5d0c0a2e-6c5b-5a58-9a6e-0f6a0c3f7d11")


class RedriveVerdict(NamedTuple):
    """The verdict on a letter.

    Args:
        row: the request as it stands now; None when it has no row.
        sent_before: how often it was sent back, where it has no row and may still run.
    """

    kind: Redrivable
    row: Row | None
    sent_before: int = 0


def judge_letters(
    connection: Connection,
    group: str,
    candidates: Sequence[RedriveCandidate],
    wish: RedriveWish,
    *,
    lock: bool,
) -> list[RedriveVerdict]:
    """Return the verdict on each letter; of two letters of one failure the first counts."""
    ids = {one.request_id for one in candidates}
    rows, now = read_rows(connection, group, ids, lock=lock)
    # With the rows locked: an action that another transaction wrote before is seen here.
    if lock:
        actions = locked_actions_of(connection, group, ids, rows)
    else:
        actions = actions_of(connection, group, ids)
    chosen: set[str] = set()
    judged = []
    for one in candidates:
        row, of_it = rows.get(one.request_id), actions.get(one.request_id, ())
        kind = decide(one, row, now, actions=of_it, wish=wish)
        if kind in TO_SEND:
            kind = Redrivable.DOUBLE if one.request_id in chosen else kind
            chosen.add(one.request_id)
        sent_before = sent_before_count(one, of_it) if row is None else 0
        judged.append(RedriveVerdict(kind, row, sent_before))
    return judged


def reopen(
    connection: Connection,
    group: str,
    candidates: Sequence[RedriveCandidate],
    wish: RedriveWish,
    *,
    valid_ms: int,
    by: str,
    reason: str | None,
) -> list[RedriveVerdict]:
    """Reopen each letter that may be, or discard it for its replacement; return each result.

    Args:
        valid_ms: from now to the new deadline.
    """
    judged = judge_letters(connection, group, candidates, wish, lock=True)
    new = [
        (one.request_id, found.row)
        for one, found in zip(candidates, judged, strict=True)
        if found.kind in (Redrivable.SEND, Redrivable.SEND_UNKNOWN)
    ]
    if wish.replaces:
        _note_replaced(connection, group, new, wish, by=by)
        return judged
    new_actions = [
        NewAction(name, None if row is None else row.generation, reason) for name, row in new
    ]
    note(connection, group, new_actions, ActionKind.REDRIVE, by=by, redrive_id=wish.redrive_id)
    known = [(name, row.generation) for name, row in new if row is not None]
    deadlines = _reopened(connection, group, known, valid_ms=valid_ms)
    return [found._replace(row=_as_reopened(found.row, deadlines)) for found in judged]


def close_again(
    connection: Connection,
    group: str,
    names: Collection[tuple[str, int | None]],
    *,
    redrive_id: str,
    by: str,
    reason: str,
) -> list[Row]:
    """Take reopenings and replacements back; return the rows that are closed again by it.

    Args:
        names: (request_id, generation) of the letters' requests; no generation without a row.
    """
    new_actions = [NewAction(name, generation, reason) for name, generation in names]
    note(connection, group, new_actions, ActionKind.CANCEL, by=by, redrive_id=redrive_id)
    known = sorted((group, name, number) for name, number in names if number is not None)
    if not known:
        return []
    parameters = RUNS.load(connection, known)
    answers = connection.execute(_close(connection.dialect.name), parameters).all()
    return [Row(*answer) for answer in answers]


def replacement_id(redrive_id: str, request_id: str) -> str:
    """Return the id of the new request: a redrive that is resumed must come to the same one."""
    return str(uuid.uuid5(_REPLACEMENTS, f"{redrive_id}\0{request_id}"))


def _note_replaced(
    connection: Connection,
    group: str,
    replaced: Sequence[tuple[str, Row | None]],
    wish: RedriveWish,
    *,
    by: str,
) -> None:
    discards, redrives = [], []
    for name, row in replaced:
        new = replacement_id(wish.redrive_id, name)
        generation = None if row is None else row.generation
        discards.append(NewAction(name, generation, f"replaced by {new}"))
        redrives.append(NewAction(new, None, f"replaces {name}"))
    for new_actions, kind in ((discards, ActionKind.DISCARD), (redrives, ActionKind.REDRIVE)):
        note(connection, group, new_actions, kind, by=by, redrive_id=wish.redrive_id)


def _reopened(
    connection: Connection, group: str, names: Sequence[tuple[str, int]], *, valid_ms: int
) -> dict[str, int]:
    if not names:
        return {}
    parameters = RUNS.load(connection, [(group, *name) for name in sorted(names)])
    statement = _reopen(connection.dialect.name)
    answers = connection.execute(statement, {**parameters, "valid_ms": valid_ms}).all()
    return {row.request_id: row.deadline_at for row in answers}


def _as_reopened(row: Row | None, deadlines: Mapping[str, int]) -> Row | None:
    if row is None or row.request_id not in deadlines:
        return row
    # The row is locked: it stands as it was read, but for the columns just written.
    deadline_at = deadlines[row.request_id]
    return row._replace(resend=True, deadline_at=deadline_at, published_at=None)


@lru_cache
def _reopen(dialect: str) -> ReturningUpdate[Any]:
    batch = RUNS.source(dialect)
    return (
        update_runs(batch, JournalState.FAILED.value)
        .values(
            resend=literal_column("1"),
            deadline_at=now_ms() + bindparam("valid_ms", type_=BigInteger()),
            published_at=null(),
        )
        .returning(request.c.request_id, request.c.deadline_at)
    )


@lru_cache
def _close(dialect: str) -> ReturningUpdate[Any]:
    batch = RUNS.source(dialect)
    return (
        update_runs(batch, JournalState.FAILED.value)
        .where(request.c.resend == literal_column("1"))
        .values(resend=literal_column("0"), published_at=null())
        .returning(*ROW_COLUMNS)
    )
