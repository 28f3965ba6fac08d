"""The holders of keys: no claim overtakes another request of its key, or runs beside it.

A key is held by each of its requests that is CLAIMED or RETRYING. An IN_DOUBT one holds nothing: it
waits for a person, and its key must not. Only claims make a request a holder, so they are made one
transaction after the other for each key: on SQLite all are, on PostgreSQL a lock in the name of the
key sees to it. Claims without an order cost nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    and_,
    case,
    func,
    select,
    text,
)

from consumer.journal.batch import CLAIMS
from consumer.journal.clock import now_ms
from consumer.journal.open_requests import open_requests, require_complete
from consumer.journal.records import Claim, KeyHolder
from consumer.journal.state_literals import CLAIMED, RETRYING

_LOCK = text("SELECT pg_advisory_xact_lock(name) FROM unnest(CAST(:names AS bigint[])) AS name")


def lock_names(connection: Connection, group: str, names: Iterable[str]) -> None:
    """Let no other transaction lock these names of a group until this one ends.

    SQLite has one writer at a time, and needs no lock.
    """
    wanted = set(names)
    if wanted and connection.dialect.name != "sqlite":
        # Two that lock the same names lock them in the same order.
        connection.execute(_LOCK, {"names": sorted(_number(group, name) for name in wanted)})


def _number(group: str, name: str) -> int:
    digest = sha256(f"{group}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def lock_keys(connection: Connection, group: str, claims: Iterable[Claim]) -> None:
    """Let no other transaction claim requests of these keys until this one ends.

    Before it locks any row, or two of them could wait for each other.
    """
    keys = {one.order_key for one in claims if one.order_key is not None}
    lock_names(connection, group, keys)


def find_holders(connection: Connection, parameters: Mapping[str, Any]) -> dict[str, KeyHolder]:
    """Return the holder before each request of the current batch of claims, by its id."""
    require_complete(connection)
    answers = connection.execute(_holders(connection.dialect.name), parameters).all()
    return {
        request_id: KeyHolder(
            is_running=bool(running),
            due_in_ms=0 if running or due_at is None else max(0, due_at - now),
            seen_at=now,
        )
        for request_id, running, due_at, now in answers
    }


@lru_cache
def _holders(dialect: str) -> Select[Any]:
    batch, rows = CLAIMS.source(dialect), open_requests(dialect)
    same_key = and_(
        rows.c.group == batch.c.group,
        rows.c.order_key == batch.c.order_key,
        rows.c.order_key.is_not(None),
        rows.c.state.in_([CLAIMED, RETRYING]),
        rows.c.request_id != batch.c.request_id,
    )
    return (
        select(
            batch.c.request_id,
            func.max(case((rows.c.state == CLAIMED, 1), else_=0)),
            func.min(rows.c.due_at),
            now_ms(),
        )
        .join_from(batch, rows, same_key)
        .group_by(batch.c.request_id)
    )
