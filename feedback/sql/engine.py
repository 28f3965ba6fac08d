"""Opens a database: the settings that durability, isolation and time limits rest on.

On PostgreSQL they are said at the beginning of each transaction, and hold as long as it does. A
`SET` for the session would stay on the server's connection, which a pooler in transaction mode
gives to somebody else next; and what somebody else left there would be ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.url import URL
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from feedback.errors import NotAvailable, SettingsError
from feedback.sql.stuck_sessions import end_stuck_sessions

# An execution option: the transaction is one statement, which PostgreSQL commits by itself.
ALONE = "onceward_alone"
_SQLITE_DRIVER = "sqlite+pysqlite"
# The server's own limit comes first: its answer says more.
ANSWER_MARGIN_S = 1.0
_POSTGRES_DRIVER = "postgresql+psycopg"


def open_engine(
    url: str,
    *,
    timeout_s: float,
    pool: Mapping[str, Any],
    bounded: bool = True,
    autocommit: bool = False,
    at_connect: Sequence[str] = (),
    what: str = "journal",
) -> Engine:
    """Return an engine on a database of ours; it connects when it is first used.

    Args:
        url: `sqlite:///path` or `postgresql+psycopg://...`; parameters of the URL pass through.
        timeout_s: the longest wait for a connection, for a lock and for a statement, each.
        pool: SQLAlchemy's arguments about the pool to keep connections in.
        bounded: whether PostgreSQL ends statements, and pauses within a transaction, that last
            longer than `timeout_s`, and whether a commit is on disk when it returns, whatever the
            server's defaults say; False where a user's own statements run.
        autocommit: on PostgreSQL nothing begins a transaction; for what only listens.
        at_connect: SQL to run on every new connection to SQLite.
        what: is kept there, as its section of the settings is named.

    Raises:
        SettingsError: the URL is malformed, or of another database.
        NotAvailable: the driver is not installed.
    """
    parsed = _parse(url, what)
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(
            parsed,
            **pool,
            hide_parameters=True,
            connect_args={"timeout": timeout_s, "check_same_thread": False},
        )
        _prepare_sqlite(engine, timeout_s, at_connect)
        return engine
    try:
        engine = create_engine(
            parsed,
            **pool,
            hide_parameters=True,
            pool_pre_ping=True,
            # A transaction that is bounded is begun by our own words, see `_begin_as_said`.
            isolation_level="AUTOCOMMIT" if autocommit or bounded else "READ COMMITTED",
            connect_args=_postgres_arguments(parsed, timeout_s, bounded=bounded),
        )
    except ModuleNotFoundError as error:
        raise NotAvailable(
            f"the {what} in PostgreSQL needs psycopg: pip install 'onceward[postgres]'"
        ) from error
    if bounded:
        _begin_as_said(engine, beginning(timeout_s))
        _bound_waiting(engine, timeout_s + ANSWER_MARGIN_S)
        end_stuck_sessions(engine)
    return engine


def _parse(url: str, what: str) -> URL:
    if not url:
        raise SettingsError(f"this needs the {what}, and [{what}] url is empty")
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
            f"{what}.url must begin with sqlite:/// or postgresql+psycopg://; correct it"
        )
    return parsed


def _prepare_sqlite(engine: Engine, timeout_s: float, at_connect: Sequence[str]) -> None:
    settings = (
        f"PRAGMA busy_timeout={math.ceil(timeout_s * 1000)}",
        "PRAGMA journal_mode=WAL",
        # FULL: in WAL mode a commit is on disk when it returns; NORMAL would lose the last ones.
        "PRAGMA synchronous=FULL",
        # Four times the default: index pages that change in each commit are copied back less often.
        "PRAGMA wal_autocheckpoint=4000",
        "PRAGMA temp_store=MEMORY",
        *at_connect,
    )

    @event.listens_for(engine, "connect")
    def _settle(connection: Any, record: object) -> None:
        # The driver's own idea of when a transaction begins is switched off: we say BEGIN.
        connection.isolation_level = None
        for statement in settings:
            connection.execute(statement)


def _postgres_arguments(url: URL, timeout_s: float, *, bounded: bool) -> dict[str, object]:
    # A statement is planned anew each time, never prepared: a plan made while the table was empty
    # would go on scanning it when it is large (planning costs 2 us a request in a batch of 64),
    # and a pooler in transaction mode knows no prepared statements.
    arguments: dict[str, object] = {
        "connect_timeout": max(2, math.ceil(timeout_s)),
        "prepare_threshold": None,
        "application_name": "onceward" if bounded else "onceward handler",
        "keepalives": 1,
        # Together they bound the wait for a server that is cut off in the middle of a statement.
        "keepalives_idle": 3,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": math.ceil(timeout_s * 1000),
    }
    return {name: value for name, value in arguments.items() if name not in url.query}


def _bound_waiting(engine: Engine, limit_s: float) -> None:
    # Only here: without the driver SQLite works as well.
    from feedback.sql.bounded_connection import bounded

    connection = bounded(limit_s)

    @event.listens_for(engine, "do_connect")
    def _connect(dialect: object, record: object, arguments: Any, named: Any) -> Any:
        return connection.connect(*arguments, **named)


def beginning(timeout_s: float) -> str:
    """Return what begins a transaction on PostgreSQL: one round trip, as BEGIN alone is."""
    limit_ms = math.ceil(timeout_s * 1000)
    return "; ".join(
        (
            # Claims, leases and the order of keys are written for it: a later statement sees what
            # was committed since, and an update looks again at a row that it has waited for.
            "BEGIN ISOLATION LEVEL READ COMMITTED",
            # A claim that a crash of the database forgets would be granted again.
            "SET LOCAL synchronous_commit = on",
            f"SET LOCAL statement_timeout = {limit_ms}",
            # A worker that is paused inside a transaction must not hold its locks for ever.
            f"SET LOCAL idle_in_transaction_session_timeout = {limit_ms}",
            # Nor one that is paused while it reads an answer: a server that waits to send it
            # knows no other limit.
            f"SET LOCAL tcp_user_timeout = {limit_ms}",
        )
    )


def _begin_as_said(engine: Engine, words: str) -> None:
    # The driver is in autocommit: left to itself it would send a BEGIN of its own, which is
    # another round trip.
    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        if not connection.get_execution_options().get(ALONE):
            connection.exec_driver_sql(words)
