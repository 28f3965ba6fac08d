"""Opens a database, with the settings for durability, isolation and time limits.

On PostgreSQL the settings are sent at the beginning of each transaction and end with it. A `SET`
for the session would stay on the server's connection, which a pooler in transaction mode gives to
another client next; and settings that another client left there would apply to us.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.url import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from feedback.errors import NotAvailable, SecurityKind, SettingsError
from feedback.files import new_private_file
from feedback.security import fault, of_database
from feedback.sql.index_hints import take_hints
from feedback.sql.stuck_sessions import end_stuck_sessions

# An execution option: the transaction is one statement, which PostgreSQL commits by itself.
ALONE = "onceward_alone"
MEMORY = ":memory:"
# In the `info` of a connection to SQLite: the file that it has opened; see `file_of`.
FILE = "onceward_file"
_SQLITE_DRIVER = "sqlite+pysqlite"
# Added to our own limit, so that the server's comes first: its error says more.
ANSWER_MARGIN_S = 1.0
CONNECT_S = 5.0
_POSTGRES_DRIVER = "postgresql+psycopg"


def open_engine(
    url: str,
    *,
    timeout_s: float,
    pool: Mapping[str, Any],
    bounded: bool = True,
    autocommit: bool = False,
    at_connect: Sequence[str] = (),
    section: str = "journal",
) -> Engine:
    """Return an engine on a database of ours; it connects at its first use.

    Args:
        url: `sqlite:///path` or `postgresql+psycopg://...`; parameters of the URL pass through.
        timeout_s: the longest wait for a lock and for a statement, each; that for a connection is
            `CONNECT_S` at most.
        pool: SQLAlchemy's arguments for its connection pool.
        bounded: override the defaults of PostgreSQL: a statement, or a pause within a transaction,
            ends after `timeout_s`, and a commit is on disk when it returns. False where a user's
            own statements run.
        autocommit: on PostgreSQL, begin no transaction; for a connection that only listens.
        at_connect: SQL to run on every new connection to SQLite.
        section: the section of the settings that holds the URL, for errors.

    Raises:
        SettingsError: the URL is malformed, or of another database.
        NotAvailable: the driver is not installed.
    """
    parsed = _parse(url, section)
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(
            parsed,
            **pool,
            hide_parameters=True,
            connect_args={"timeout": timeout_s, "check_same_thread": False},
        )
        take_hints(engine)
        _prepare_sqlite(engine, timeout_s, at_connect, section)
        return engine
    try:
        engine = create_engine(
            parsed,
            **{"pool_pre_ping": True, **pool},
            hide_parameters=True,
            # A bounded transaction begins with our own SQL, see `_begin_with`.
            isolation_level="AUTOCOMMIT" if autocommit or bounded else "READ COMMITTED",
            connect_args=_postgres_arguments(parsed, timeout_s, bounded=bounded),
        )
    except ModuleNotFoundError as error:
        raise NotAvailable(
            f"the {section} in PostgreSQL needs psycopg: pip install 'onceward[postgres]'"
        ) from error
    _connect_by_psycopg(engine, section, timeout_s + ANSWER_MARGIN_S if bounded else None)
    if bounded:
        _begin_with(engine, beginning(timeout_s))
        end_stuck_sessions(engine, beginning(timeout_s))
    return engine


def _parse(url: str, section: str) -> URL:
    if not url:
        raise SettingsError(f"this needs the {section}, and [{section}] url is empty")
    # The text of the URL is left out of every message: it may hold a password.
    try:
        parsed = make_url(url)
        if parsed.drivername == "sqlite":
            return parsed.set(drivername=_SQLITE_DRIVER)
        parsed.get_dialect()
    except ModuleNotFoundError:
        return parsed
    except (ArgumentError, NoSuchModuleError, ValueError):
        parsed = None
    if parsed is None or parsed.drivername not in (_SQLITE_DRIVER, _POSTGRES_DRIVER):
        raise SettingsError(
            f"{section}.url must begin with sqlite:/// or postgresql+psycopg://; correct it"
        )
    return parsed


def _prepare_sqlite(
    engine: Engine, timeout_s: float, at_connect: Sequence[str], section: str
) -> None:
    settings = (
        f"PRAGMA busy_timeout={math.ceil(timeout_s * 1000)}",
        "PRAGMA journal_mode=WAL",
        # FULL: in WAL mode a commit is on disk when it returns; NORMAL would lose the last ones.
        "PRAGMA synchronous=FULL",
        # Four times the default: index pages change in each commit, and are copied back less often.
        "PRAGMA wal_autocheckpoint=4000",
        "PRAGMA temp_store=MEMORY",
        *at_connect,
    )

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, record: object) -> None:
        # The driver begins no transactions by itself: we send BEGIN.
        connection.isolation_level = None
        for statement in settings:
            connection.execute(statement)

    @event.listens_for(engine, "do_connect")
    def _make(dialect: object, record: Any, arguments: Any, named: Any) -> None:
        _make_private(engine.url, section)
        # Before it is opened: one that is replaced in between is then taken for another.
        record.info[FILE] = file_of(engine.url)


def file_of(url: URL) -> tuple[int, int] | None:
    """Return the device and number of a database's file; None where there is none."""
    path = url.database or MEMORY
    if path == MEMORY or "uri" in url.query:
        return None
    try:
        found = Path(path).stat()
    except OSError:
        return None  # nor where its folder is none any more, or may not be searched
    return found.st_dev, found.st_ino


def _make_private(url: URL, section: str) -> None:
    """Make a new database for its owner alone; SQLite gives the files beside it the same rights.

    Raises:
        sqlite3.OperationalError: it cannot be made. SQLite would not say why.
    """
    path = Path(url.database or MEMORY)
    if path.exists() or str(path) == MEMORY or "uri" in url.query:
        return
    try:
        new_private_file(path).close()
    except FileExistsError:
        pass  # made meanwhile
    except OSError as error:
        refused = sqlite3.OperationalError(error.strerror)
        found = fault(
            SecurityKind.FILE,
            of_database(section),
            error.strerror or "",
            more=f"[{section}] url = {path}",
        )
        refused.onceward_fault = found  # type: ignore[attr-defined]
        raise refused from error


def _postgres_arguments(url: URL, timeout_s: float, *, bounded: bool) -> dict[str, object]:
    # Statements are never prepared, but planned anew each time. A plan made while the table was
    # empty would go on scanning it when it is large (planning costs 2 us a request in a batch of
    # 64), and a pooler in transaction mode knows no prepared statements.
    arguments: dict[str, object] = {
        # Of its own: a migration waits long for another one, but for no server that is silent.
        "connect_timeout": max(2, math.ceil(min(timeout_s, CONNECT_S))),
        "prepare_threshold": None,
        "application_name": "onceward" if bounded else "onceward handler",
        "keepalives": 1,
        # These four bound the wait for a server that is cut off in the middle of a statement.
        "keepalives_idle": 3,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": math.ceil(timeout_s * 1000),
    }
    return {name: value for name, value in arguments.items() if name not in url.query}


def _connect_by_psycopg(engine: Engine, section: str, limit_s: float | None) -> None:
    # Imported here, so that SQLite works without the driver.
    from psycopg import Connection as Unbounded

    from feedback.sql.bounded_connection import bounded
    from feedback.sql.connecting import connect_by

    connection = Unbounded if limit_s is None else bounded(limit_s)
    connect_by(engine, connection.connect, of_database(section))


def beginning(timeout_s: float) -> str:
    """Return the SQL that begins a transaction on PostgreSQL: one round trip, as BEGIN alone."""
    limit_ms = math.ceil(timeout_s * 1000)
    return "; ".join(
        (
            # Claims, leases and the order of keys rely on it: a later statement sees commits made
            # since, and an update reads a row again after it has waited for its lock.
            "BEGIN ISOLATION LEVEL READ COMMITTED",
            # First: until then a limit counts that another client of a pooler has left.
            f"SET LOCAL statement_timeout = {limit_ms}",
            # A claim that a crash of the database forgets would be granted again.
            "SET LOCAL synchronous_commit = on",
            # A worker that is paused inside a transaction must not hold its locks for ever.
            f"SET LOCAL idle_in_transaction_session_timeout = {limit_ms}",
            # Nor may a worker that is paused while it reads an answer: a server that waits to
            # send has no other limit.
            f"SET LOCAL tcp_user_timeout = {limit_ms}",
        )
    )


def _begin_with(engine: Engine, sql: str) -> None:
    # The driver is in autocommit: otherwise it would send its own BEGIN, another round trip.
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if not connection.get_execution_options().get(ALONE):
            connection.exec_driver_sql(sql)
