"""The settings of a PostgreSQL on which the guarantee rests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

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
