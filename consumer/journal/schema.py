"""The journal's version and id, and the migrations that bring it up to date."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, text

from consumer.journal.errors import JournalVersionError
from consumer.journal.session import JournalSession
from consumer.journal.tables import PARTIAL_INDEXES, SCHEMA_VERSION, meta
from feedback.sql.versions import has_tables, lock_migration, read_value, write_value


def drop_older_indexes(connection: Connection) -> None:
    """Drop them where they still are: while they are there, an update writes all indexes."""
    if connection.dialect.name == "sqlite":
        return
    for name in PARTIAL_INDEXES:
        connection.execute(text(f"DROP INDEX IF EXISTS onceward_request_{name}"))


def look_up_by_index(connection: Connection) -> None:
    """Let the copy's triggers look each request up, whatever the planner knows of the copy.

    A session plans a trigger once, often while the copy is nearly empty, and would then read the
    whole table: its ended requests too, which stay in it until the next vacuum. A role that does
    not own the triggers leaves them as they are: they are slower, and say the same.
    """
    if connection.dialect.name == "sqlite":
        return
    for name in ("onceward_copy_new()", "onceward_copy_changed()", "onceward_copy_deleted()"):
        if connection.execute(_PLANS_FREELY, {"name": name}).first() is not None:
            settings = " ".join(f"SET {one} = off" for one in _OTHER_PLANS)
            connection.execute(text(f"ALTER FUNCTION {name} {settings}"))


# Of plans that read more of the copy than the rows that a statement has changed.
_OTHER_PLANS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")
_PLANS_FREELY = text(
    "SELECT 1 FROM pg_proc WHERE oid = to_regprocedure(CAST(:name AS text)) "
    "AND pg_has_role(proowner, 'USAGE') AND NOT coalesce(proconfig, '{}') "
    f"@> ARRAY[{', '.join(repr(f'{one}=off') for one in _OTHER_PLANS)}]"
)
_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = "schema_version"
_JOURNAL_ID = "journal_id"
# Any number that nobody else locks: "onceward" in ASCII.
_LOCK = 0x6F6E636577617264


@dataclass(frozen=True, slots=True)
class Migrated:
    """The versions before and after a migration; `found` is None for an empty database."""

    found: int | None
    version: int
    journal_id: str


def migrate(url: str, *, timeout_s: float = 60.0) -> Migrated:
    """Bring a journal's tables up to this program's version; two at once wait for each other.

    All of it is one transaction: it happens whole or not at all. On tables that are of this version
    already it takes away what only workers of earlier versions read. How triggers are planned is no
    version: each migration sets it, while workers run.

    Args:
        url: the journal's URL; a missing SQLite file is made, its folder is not.
        timeout_s: the longest wait for another migration or statement.

    Raises:
        JournalVersionError: the tables are newer than this program.
        JournalUnavailable: the database is away, or was busy for too long.
    """
    session = JournalSession(url, timeout_s=timeout_s)
    try:
        with session.transaction() as connection:
            lock_migration(connection, _LOCK)
            found = _version(connection)
            if found is not None and found > SCHEMA_VERSION:
                raise JournalVersionError(found, SCHEMA_VERSION)
            _upgrade(connection)
            if found == SCHEMA_VERSION:
                drop_older_indexes(connection)
            look_up_by_index(connection)
            write_value(connection, meta, _VERSION, str(SCHEMA_VERSION))
            write_value(connection, meta, _JOURNAL_ID, uuid.uuid4().hex, overwrite=False)
            return Migrated(found, SCHEMA_VERSION, read_journal_id(connection))
    finally:
        session.close()


def check_version(connection: Connection) -> None:
    """Return when the tables are those that this program works with.

    Raises:
        JournalVersionError: there are none, older or newer ones.
    """
    # Without tables the statement fails: its session finds out whether a schema hides them.
    value = read_value(connection, meta, _VERSION)
    found = None if value is None else int(value)
    if found != SCHEMA_VERSION:
        raise JournalVersionError(found, SCHEMA_VERSION)


def read_journal_id(connection: Connection) -> str:
    """Return the random id that the first migration gave this journal.

    Raises:
        JournalVersionError: there was no migration yet.
    """
    value = read_value(connection, meta, _JOURNAL_ID)
    if value is None:
        raise JournalVersionError(None, SCHEMA_VERSION)
    return value


def server_version(connection: Connection) -> str:
    if connection.dialect.name == "sqlite":
        return f"SQLite {connection.execute(text('SELECT sqlite_version()')).scalar_one()}"
    return f"PostgreSQL {connection.execute(text('SHOW server_version')).scalar_one()}"


def _version(connection: Connection) -> int | None:
    value = read_value(connection, meta, _VERSION) if has_tables(connection, meta) else None
    return None if value is None else int(value)


def _upgrade(connection: Connection) -> None:
    # Loaded only here: workers and their children import this package and never migrate.
    from alembic import command
    from alembic.config import Config

    config = Config()
    # Alembic reads % as the beginning of a reference.
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
