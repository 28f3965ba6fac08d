"""The settings of a PostgreSQL on which the guarantee rests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from consumer.handlers.declaration import EffectKind, Handler

# Its loop, its lease, its sweeps, its pauses, its dead letters, and for a moment the restore of an
# empty Redis.
_OF_WORKER = 6
_LOST = "a crash of its machine loses or breaks what was acknowledged, and requests run again"


def connections(slots: int, handlers: Sequence[Handler]) -> int:
    """Return how many connections a worker with these handlers has at most."""
    of_slots = slots if any(one.effect is EffectKind.TRANSACTIONAL for one in handlers) else 0
    outcomes = any(one.outcome_topic is not None for one in handlers)
    return _OF_WORKER + outcomes + of_slots


def standing_faults(standing: DatabaseSettings, *, wanted: int) -> Iterator[str]:
    """Yield settings that break a promise or cost time, and that no session can change.

    Args:
        wanted: how many connections one worker has at most.
    """
    if not standing.fsync:
        yield f"fsync is off: {_LOST}; turn it on"
    if not standing.full_page_writes:
        yield f"full_page_writes is off: {_LOST}; turn it on"
    if wanted > standing.connections_limit:
        yield (
            f"one worker takes up to {wanted} connections and max_connections leaves "
            f"{standing.connections_limit} for all: raise it, or put a pooler before it"
        )


def described(standing: DatabaseSettings, *, wanted: int) -> Iterator[str]:
    """Yield the other settings, and the consequence of each.

    Args:
        wanted: how many connections one worker has at most.
    """
    yield f"isolation {standing.isolation}" + _unless(standing.isolation, "read committed")
    commit = standing.synchronous_commit
    yield f"synchronous_commit {commit}" + _unless(commit, "on")
    yield (
        f"{standing.connections} of {standing.connections_limit} connections open, "
        f"a worker takes up to {wanted}"
    )
    if standing.is_pooled:
        yield "behind a pooler"
    for standby in standing.standbys:
        yield f"standby {standby.name} {_said_of(standby)}"


def _unless(is_set: str, wanted: str) -> str:
    return "" if is_set == wanted else f" (transactions of ours ask for {wanted})"


def _said_of(standby: Standby) -> str:
    match standby.is_synchronous:
        case True:
            return "is synchronous"
        case False:
            return (
                "is ASYNCHRONOUS: do not fail over to it, it may lack claims that were granted, "
                "and their requests run twice"
            )
    return "may be asynchronous: ask as a member of pg_monitor before you fail over to it"


# A `potential` one is asynchronous until another one is gone.
_SYNCHRONOUS = frozenset({"sync", "quorum"})


@dataclass(frozen=True, slots=True)
class Standby:
    """A server that follows this one.

    Attributes:
        is_synchronous: whether commits wait for it, or for it or another one; None where this user
            may not know.
    """

    name: str
    is_synchronous: bool | None


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How a database stands.

    Attributes:
        isolation: of transactions that ask for none, as this user has them.
        synchronous_commit: of those.
        is_pooled: whether somebody shares out its connections.
        connections: that are open now, anybody's.
        connections_limit: of all of them, but for those that are kept for superusers.
    """

    isolation: str
    synchronous_commit: str
    fsync: bool
    full_page_writes: bool
    standbys: tuple[Standby, ...]
    is_pooled: bool
    connections: int
    connections_limit: int


def read_standing(connection: Connection) -> DatabaseSettings | None:
    """Return how the database stands; None on SQLite, where all of it is ours to say."""
    if connection.dialect.name == "sqlite":
        return None
    found = connection.execute(_SETTINGS).mappings().one()
    driver: Any = connection.connection.driver_connection
    return DatabaseSettings(
        isolation=found["isolation"],
        synchronous_commit=found["synchronous_commit"],
        fsync=found["fsync"],
        full_page_writes=found["full_page_writes"],
        standbys=tuple(
            Standby(name or "unnamed", None if state is None else state in _SYNCHRONOUS)
            for name, state in connection.execute(_STANDBYS)
        ),
        # A pooler makes up the number of the process that it says it is.
        is_pooled=driver.info.backend_pid != found["pid"],
        connections=found["connections"],
        connections_limit=found["connections_limit"],
    )


# `reset_val`: our own transactions have asked for theirs.
_SETTINGS = text(
    """
SELECT
    pg_backend_pid() AS pid,
    (SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_isolation') AS isolation,
    (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') AS synchronous_commit,
    current_setting('fsync')::boolean AS fsync,
    current_setting('full_page_writes')::boolean AS full_page_writes,
    (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL) AS connections,
    current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer AS connections_limit
"""
)
# Not those that read single tables, which nobody fails over to.
_STANDBYS = text(
    """
SELECT application_name, sync_state FROM pg_stat_replication AS one
WHERE NOT EXISTS (
    SELECT FROM pg_replication_slots AS slot
    WHERE slot.active_pid = one.pid AND slot.slot_type = 'logical'
)
ORDER BY application_name
"""
)
