"""Makes the outbox's tables, and checks their version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, text

from feedback.sql.rights import HOLDING
from feedback.sql.session import Session
from feedback.sql.versions import has_tables, lock_migration, read_value, write_value
from producer_client.outbox.errors import OutboxVersionError
from producer_client.outbox.faults import hidden, translate
from producer_client.outbox.tables import (
    SCHEMA_VERSION,
    VERSION,
    meta,
    metadata,
    row,
    waiting_index,
)

# Any number that nobody else locks: "outboxes" in ASCII.
_LOCK = 0x6F7574626F786573


@dataclass(frozen=True, slots=True)
class OutboxMigrated:
    """The versions before and after a migration; `found` is None where there was no outbox."""

    found: int | None
    version: int


def migrate(url: str, *, timeout_s: float = 60.0) -> OutboxMigrated:
    """Bring an outbox up to this program's version; two at once wait for each other.

    All of it is one transaction: it happens whole or not at all.

    Args:
        url: the database's URL; a missing SQLite file is made, its folder is not.
        timeout_s: the longest wait for another migration or statement.

    Raises:
        OutboxVersionError: the tables are newer than this program.
        OutboxUnavailable: the database is away, or was busy for too long.
    """
    session = Session(url, timeout_s=timeout_s, translate=translate, section="outbox")
    try:
        with session.transaction() as connection:
            return create(connection)
    finally:
        session.close()


def create(connection: Connection) -> OutboxMigrated:
    """Make the tables or bring them up to date, within the caller's transaction; for migrations.

    In a migration of Alembic: `outbox.create(op.get_bind())`.

    Raises:
        OutboxVersionError: there are tables of a newer version.
    """
    lock_migration(connection, _LOCK)
    found = _version(connection) if has_tables(connection, meta) else None
    if found is not None and found > SCHEMA_VERSION:
        raise OutboxVersionError(found, SCHEMA_VERSION)
    metadata.create_all(connection)
    if found == 1:
        _index_by_topic(connection)
    write_value(connection, meta, VERSION, str(SCHEMA_VERSION))
    return OutboxMigrated(found, SCHEMA_VERSION)


def _index_by_topic(connection: Connection) -> None:
    """Make version 2 of version 1, whose relays read past all rows of a resting topic."""
    waiting_index.drop(connection)
    if connection.dialect.name == "postgresql":
        # Compared by its bytes, as all names that are looked up; no row is rewritten for that.
        name = row.c.topic.name
        connection.execute(text(f'ALTER TABLE {row.name} ALTER {name} TYPE text COLLATE "C"'))
    waiting_index.create(connection)


def check_version(connection: Connection) -> str:
    """Return the schema of the tables when they have this program's version; empty on SQLite.

    Raises:
        OutboxForbidden: they are there, and this user may not use their schema.
        OutboxVersionError: the tables are older or newer.
        DBAPIError: there are no tables, or the database is away; see `faults`.
    """
    schema = ""
    if connection.dialect.name == "postgresql":
        # Asked for before: in a transaction that has failed nothing can be asked.
        schema = require_seen(connection.execute(HOLDING, {"name": meta.name}).first())
    found = _version(connection)
    if found != SCHEMA_VERSION:
        raise OutboxVersionError(found, SCHEMA_VERSION)
    return schema


def require_seen(holding: Sequence[Any] | None) -> str:
    """Return the schema of an answer to `HOLDING`; empty where the search path has none.

    Raises:
        OutboxForbidden: this user may not use it.
    """
    schema, is_hidden = holding or ("", False)
    if is_hidden:
        raise hidden(schema)
    return str(schema)


def _version(connection: Connection) -> int | None:
    value = read_value(connection, meta, VERSION)
    return None if value is None else int(value)
