"""Databases for tests at a fraction of their cost: emptied and used again, filled by copies.

To create and to drop a database takes PostgreSQL a second beside other work, and to migrate it as
long again; a test of a store often takes a tenth of that. So a process of tests has one database,
which is emptied before each test. And since `migrate` does the same to each empty database, it is
done once; then an SQLite file is copied, and PostgreSQL is sent the same statements again, unless
it has kept the tables of an earlier test (`kept_tables`). The tests of `migrate` itself call it.

A connection costs PostgreSQL 15 ms of processor, half of it to begin and to end its process. So the
one that empties the database stays open, and finds its tables and plans where it left them.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import make_url

from consumer import journal
from tests.eventually import eventually
from tests.kit.kept_tables import SCHEMA, KeptTables
from tests.stack.postgres import dsn, fresh_database

Migrate = Callable[[str], object]
Statement = tuple[str, Mapping[str, Any]]

LEAVES_WITHIN_S = 1.0
# Who else is connected, and what an emptied schema would leave of an earlier test.
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_type = 'client backend'
"""
_LEFT_OVER = """
    SELECT 1 FROM pg_database AS d LEFT JOIN pg_db_role_setting AS s ON s.setdatabase = d.oid
        WHERE datname = current_database() AND (datacl IS NOT NULL OR setdatabase IS NOT NULL)
    UNION ALL SELECT 1 FROM pg_extension WHERE extname <> 'plpgsql'
    UNION ALL SELECT 1 FROM pg_event_trigger
    UNION ALL SELECT 1 FROM pg_publication
"""
_SCHEMAS = r"SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)'"
# As a new database has it.
_EMPTY_SCHEMA = (
    "CREATE SCHEMA public AUTHORIZATION pg_database_owner",
    "GRANT USAGE ON SCHEMA public TO PUBLIC",
)
_HAS_TABLES = "SELECT 1 FROM pg_tables WHERE schemaname = 'public' LIMIT 1"
_CHANGES = ("CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "DELETE")
_RENAME = "UPDATE onceward_meta SET value = '{}' WHERE name = 'journal_id'"


class ReusedDatabase:
    """A database of PostgreSQL that one test after the other has, empty each time.

    Args:
        server: the URL of any database of the server.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self._url = ""
        self._ends = ExitStack()

    def empty(self) -> str:
        """Return the URL of an empty database.

        Whoever is left of an earlier test would write into it. So it is used again only when
        nobody is connected to it; else it is dropped, with whoever is, and another one is made.
        """
        if not self._url or not _is_emptied(self._url):
            self.close()
            made = fresh_database(self._server, f"test_{uuid.uuid4().hex}")
            self._url = self._ends.enter_context(made)
            admin = psycopg.connect(dsn(self._url), autocommit=True)
            _kept[self._url] = Kept(self._ends.enter_context(closing(admin)))
        return self._url

    def close(self) -> None:
        """Drop it."""
        self._ends.close()
        _kept.pop(self._url, None)
        self._url = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """What stays of a database from one test to the next.

    Args:
        admin: an open connection; a test that ends all connections of its database ends it too.
        tables: that the next test may have.
    """

    admin: psycopg.Connection
    tables: KeptTables = field(default_factory=KeptTables)

    @property
    def is_connected(self) -> bool:
        """Whether the connection still answers."""
        try:
            self.admin.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


def _is_emptied(url: str) -> bool:
    """Empty a database, unless somebody is connected to it or an earlier test changed it itself."""
    kept = _kept[url]
    admin = kept.admin

    def is_alone() -> bool:
        return admin.execute(_OTHERS).fetchone() == (0,)

    if not kept.is_connected:
        return False
    try:
        eventually(is_alone, timeout_s=LEAVES_WITHIN_S, what="the end of all connections")
    except TimeoutError:
        return False
    if admin.execute(_LEFT_OVER).fetchone() is not None:
        return False
    with admin.transaction():
        spared = [SCHEMA] if kept.tables.are_put_away(admin) else []
        found = [name for (name,) in admin.execute(_SCHEMAS)]
        names = [sql.Identifier(name) for name in found if name not in spared]
        if names:
            admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.SQL(", ").join(names)))
        for statement in _EMPTY_SCHEMA:
            admin.execute(statement)
    return True


def migrated(url: str, migrate: Migrate = journal.migrate) -> None:
    """Bring an empty database where `migrate` brings it; one that has tables is left to that.

    Args:
        url: an SQLite file that may not be there, or a database of PostgreSQL.
        migrate: of a journal, or of an outbox.
    """
    # Two journals have two ids: workers of one group refuse to be beside another one.
    rename = _RENAME.format(uuid.uuid4().hex) if migrate is journal.migrate else ""
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        is_made = _is_copied(migrate, Path(parts.database or ""), rename)
    else:
        is_made = _is_repeated(migrate, url, rename)
    if not is_made:
        migrate(url)


def _is_copied(migrate: Migrate, file: Path, rename: str) -> bool:
    if file.exists():
        return False
    shutil.copy(_migrated_file(migrate), file)  # with its rights
    if rename:
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            # Nobody reads this file after a crash of the machine.
            connection.execute("PRAGMA synchronous = off")
            connection.execute(rename)
    return True


@cache
def _migrated_file(migrate: Migrate) -> Path:
    file = Path(_folder().name) / f"{uuid.uuid4().hex}.db"
    migrate(f"sqlite:///{file}")
    return file


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="onceward-databases-")  # removed with this process


def _is_repeated(migrate: Migrate, url: str, rename: str) -> bool:
    kept = _kept.get(url)
    if kept is not None and not kept.is_connected:
        kept = None
    with ExitStack() as opened:
        if kept is None:
            session = opened.enter_context(psycopg.connect(dsn(url)))
        else:
            session = kept.admin
            opened.enter_context(session.transaction())
        if session.execute(_HAS_TABLES).fetchone() is not None:
            return False
        if kept is not None and kept.tables.are_taken_out(session, migrate):
            session.execute(rename.encode())
            return True
        if migrate in _sent:
            with session.pipeline():
                for statement, parameters in _sent[migrate]:
                    session.execute(statement.encode(), parameters)
            if kept is not None:
                kept.tables.note(session, migrate)
            session.execute(rename.encode())
            return True
    with _noted(make_url(url).database) as sent:
        migrate(url)
    _sent[migrate] = [one for one in sent if one[0].split(maxsplit=1)[0] in _CHANGES]
    return True


# By the URL of each database that is used again.
_kept: dict[str, Kept] = {}
# By each `migrate`, to an empty database of PostgreSQL.
_sent: dict[Migrate, list[Statement]] = {}


@contextmanager
def _noted(database: str | None) -> Iterator[list[Statement]]:
    """Yield the statements that this process sends to a database, as they are sent."""
    sent: list[Statement] = []

    def note(connection: Connection, _: Any, statement: str, parameters: Any, *__: object) -> None:
        if connection.engine.url.database == database:
            sent.append((statement, dict(parameters)))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)
