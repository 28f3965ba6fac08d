"""Redrives that are not done, and the requests that they have taken and may not have sent.

Whoever dies between the commit that takes a batch and the batch's send leaves requests that only a
resume of that redrive sends: a failure that a new request replaces reads as discarded until then.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from consumer.journal.actions import Action, ActionKind, actions_of
from consumer.journal.clock import now_ms
from consumer.journal.history import read
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive_row import DONE
from consumer.journal.reopening import replacement_id
from consumer.journal.tables import redrive

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
        rows, _ = read(connection, group, [*names, *new.values()])
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
        row: the request as it stands.
        actions: those on the request, oldest first.
        is_replaced: whether the new request in its place has a row.
    """
    generation = None if row is None else row.generation
    of_it = [one for one in actions if one.generation == generation and one.action in _OF_A_LETTER]
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
