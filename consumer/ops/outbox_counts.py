"""How many requests of each topic an outbox has: those that wait, are parked, or were sent.

An outbox lies in the database of an application, and its tables are the client's; whoever looks may
know that database or not. So it is read apart, with statements of its own, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    column,
    func,
    literal_column,
    select,
    table,
)
from sqlalchemy.exc import DBAPIError

from feedback.errors import NotAvailable
from feedback.settings.settings import Settings
from feedback.sql import clock
from feedback.sql.faults import FaultKind, sort
from feedback.sql.read_only import open_reader

# As the client makes the tables.
VERSION = 2
# The indexes of the table find them; where Kafka is away, a million may wait.
MOST_ROWS = 50_000

_META = table("onceward_outbox_meta", column("name"), column("value"))
_ROW = table(
    "onceward_outbox",
    *map(column, ("id", "group", "lane", "topic", "state", "created_at", "ended_at")),
)


class OutboxCount(NamedTuple):
    """The requests of a topic in an outbox.

    Args:
        oldest_ms: how long the first of those that wait has waited; None where none does.
        sent: those that Kafka has and the relay has not pruned.
    """

    waiting: int = 0
    oldest_ms: int | None = None
    parked: int = 0
    sent: int = 0


class OutboxFound(NamedTuple):
    """The counts of a group's topics.

    Args:
        by_topic: of each that has any.
        cut: the states of which only `MOST_ROWS` were counted, so that there may be more.
    """

    by_topic: dict[str, OutboxCount]
    cut: frozenset[str] = frozenset()


def outbox_counts(settings: Settings) -> OutboxFound:
    """Return the counts of the outbox that `[outbox] url` names.

    Raises:
        NotAvailable: there is no such setting, the database is away, or it has no outbox.
    """
    section = settings.outbox
    if not section.url:
        raise NotAvailable("[outbox] url is empty in the settings of this program")
    engine = open_reader(section.url, timeout_s=section.timeout_s)
    try:
        with engine.connect() as connection:
            _require_version(connection)
            return _counts(connection, settings.kafka.group)
    except DBAPIError as error:
        fault = sort(error, "outbox")
        if fault is None:
            raise
        if fault.kind is FaultKind.NO_TABLE:
            raise NotAvailable("the database of [outbox] url has no outbox") from error
        said = f"the outbox cannot be read ([outbox] url): {fault.reason}"
        raise NotAvailable(said).because(fault.security) from error
    finally:
        engine.dispose()


def _require_version(connection: Connection) -> None:
    named = select(_META.c.value).where(_META.c.name == "schema_version")
    found = connection.execute(named).scalar()
    if found != str(VERSION):
        raise NotAvailable(f"the outbox has version {found}, this program reads {VERSION}")


def _counts(connection: Connection, group: str) -> OutboxFound:
    given = {"this_group": group, "most": MOST_ROWS}
    waiting, parked, sent = (connection.execute(one, given).all() for one in _COUNTS)
    found = {name: OutboxCount(count, age) for name, count, age in waiting}
    for name, count, _ in parked:
        found[name] = found.get(name, OutboxCount())._replace(parked=count)
    for name, count, _ in sent:
        found[name] = found.get(name, OutboxCount())._replace(sent=count)
    by_state = {"waiting": waiting, "parked": parked, "sent": sent}
    cut = (name for name, rows in by_state.items() if sum(one[1] for one in rows) >= MOST_ROWS)
    return OutboxFound(found, frozenset(cut))


def _count(condition: ColumnElement[bool], order: Sequence[ColumnElement[Any]]) -> Select[Any]:
    some = (
        select(_ROW.c.topic, _ROW.c.created_at)
        .where(_ROW.c.group == bindparam("this_group"), condition)
        .order_by(*order)
        .limit(bindparam("most"))
        .subquery()
    )
    age_ms = clock.once() - func.min(some.c.created_at)
    return select(some.c.topic, func.count(), age_ms).group_by(some.c.topic)


def _is(state: str) -> ColumnElement[bool]:
    # As a text of its own: a parameter leaves an index of some rows unused.
    return _ROW.c.state == literal_column(f"'{state}'")


_HAS_ENDED = _ROW.c.state != literal_column("'WAITING'")
_COUNTS = (
    _count(_is("WAITING"), (_ROW.c.lane, _ROW.c.topic, _ROW.c.id)),
    *(_count(and_(_is(one), _HAS_ENDED), (_ROW.c.ended_at,)) for one in ("PARKED", "SENT")),
)
