"""The actions of people on requests: one row each in `onceward_action`, only ever appended to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Insert, Select, Text, and_, bindparam, insert, select

from consumer.journal.batch import RUNS, BatchShape
from consumer.journal.clock import now_ms
from consumer.journal.ordering import lock_names
from consumer.journal.records import cleaned
from consumer.journal.tables import BIGINT, action

_COLUMNS = (
    ("group", Text()),
    ("request_id", Text()),
    ("generation", BIGINT),
    ("reason", Text()),
)
ACTIONS = BatchShape("action", _COLUMNS)


class ActionKind(StrEnum):
    """The kind of an action."""

    REDRIVE = "redrive"
    RESOLVE = "resolve"
    DISCARD = "discard"
    UNDO = "undo"  # of a discard
    CANCEL = "cancel"  # a whole redrive, or its part in one request
    PAUSE = "pause"  # a redrive, which a person may go on with
    RESUME = "resume"  # a redrive
    PAUSE_TOPIC = "pause_topic"
    RESUME_TOPIC = "resume_topic"
    LOOK = "look"  # at a payload


class Action(NamedTuple):
    """One action of a person.

    Args:
        request_id: None where it was done to a whole redrive, or to a topic, which `reason` names.
        id: the actions of a journal stand in its order.
    """

    request_id: str | None
    action: str
    by: str
    at: int
    reason: str | None
    redrive_id: str | None
    generation: int | None
    id: int = 0

    @property
    def stamp(self) -> str:
        """A name by which a command or a form says that it means this action and no later one.

        A database that has lost commits gives their ids once more, so the time is part of it.
        """
        return f"{self.id}.{self.at}"


class NewAction(NamedTuple):
    """An action that is about to be written for one request."""

    request_id: str | None
    generation: int | None
    reason: str | None


def note(
    connection: Connection,
    group: str,
    new_actions: Sequence[NewAction],
    kind: ActionKind,
    *,
    by: str,
    redrive_id: str | None = None,
) -> None:
    if not new_actions:
        return
    rows = [
        (group, one.request_id, one.generation, None if one.reason is None else cleaned(one.reason))
        for one in new_actions
    ]
    given = {"this_action": kind.value, "whose": cleaned(by), "this_redrive": redrive_id}
    parameters = {**ACTIONS.load(connection, rows), **given}
    connection.execute(_insert(connection.dialect.name), parameters)


def actions_of(
    connection: Connection, group: str, request_ids: Collection[str]
) -> dict[str, list[Action]]:
    """Return the actions on these requests, oldest first; requests without any are left out."""
    if not request_ids:
        return {}
    parameters = RUNS.load(connection, [(group, name, 0) for name in sorted(request_ids)])
    found: dict[str, list[Action]] = {}
    for answer in connection.execute(_select(connection.dialect.name), parameters).all():
        found.setdefault(answer[0], []).append(Action(*answer))
    return found


def locked_actions_of(
    connection: Connection, group: str, request_ids: Collection[str], rows: Collection[str]
) -> dict[str, list[Action]]:
    """Return the actions on these requests, to which nobody adds until the transaction ends.

    Without a row there is nothing to lock: of two people both would take a letter of such a
    request, each without the other's action. So those who act on one do so one after the other.

    Args:
        rows: the requests that have a row, which is locked.
    """
    if not set(rows).issuperset(request_ids):
        lock_unknown(connection, group)
    return actions_of(connection, group, request_ids)


def lock_unknown(connection: Connection, group: str) -> None:
    """Let no other transaction act on requests without a row until this one ends."""
    # No key of an order begins so: a lock for each letter would fill the server's table.
    lock_names(connection, group, ["\0letters without a row"])


@lru_cache
def _insert(dialect: str) -> Insert:
    batch = ACTIONS.source(dialect)
    values = select(
        batch.c.group,
        batch.c.request_id,
        batch.c.generation,
        batch.c.reason,
        bindparam("this_action", type_=Text()),
        bindparam("whose", type_=Text()),
        bindparam("this_redrive", type_=Text()),
        now_ms(),
    )
    named = ("group", "request_id", "generation", "reason", "action", "by", "redrive_id", "at")
    return insert(action).from_select(named, values)


@lru_cache
def _select(dialect: str) -> Select[Any]:
    batch = RUNS.source(dialect)
    of_batch = and_(action.c.group == batch.c.group, action.c.request_id == batch.c.request_id)
    columns = [action.c[name] for name in Action._fields]
    return select(*columns).join_from(batch, action, of_batch).order_by(action.c.id)
