"""Waits for committed rows: by NOTIFY on PostgreSQL, by SQLite's own count of changes.

A missed wake-up costs no more than the time to the next poll.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

from sqlalchemy import Connection, NullPool
from sqlalchemy.exc import DBAPIError

from feedback.clock import monotonic_s
from feedback.logs import EventLog
from feedback.sql.engine import open_engine
from producer_client.outbox.row_insert import CHANNEL

log = EventLog("onceward.relay")

LISTEN_S = 0.5
RECONNECT_S = 2.0
# A look costs some microseconds, and no lock.
LOOK_S = 0.01


class Waker(Protocol):
    """Waits for rows."""

    def wait(self, timeout_s: float) -> bool: ...
    def close(self) -> None: ...


def waker(url: str, *, timeout_s: float, notify: bool) -> Waker:
    """Return the waker for this database.

    Args:
        timeout_s: the longest wait for a connection.
        notify: whether to listen on PostgreSQL.
    """
    # A listening statement may last, so it has no timeout but our own.
    engine = open_engine(
        url,
        timeout_s=timeout_s,
        pool={"poolclass": NullPool},
        bounded=False,
        autocommit=True,
        section="outbox",
    )
    if engine.dialect.name == "sqlite":
        return SqliteChangeWatch(engine)
    return PostgresListener(engine) if notify else Poller()


class Poller:
    """Wakes up by time only."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for all of that time."""
        time.sleep(timeout_s)
        return False

    def close(self) -> None:
        """Nothing to close."""


class PostgresListener:
    """Listens on PostgreSQL in a thread of its own, over a connection of its own."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._heard = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onceward-listen", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Whether a commit came since the last call; waits for one at most so long."""
        is_heard = self._heard.wait(timeout_s)
        self._heard.clear()
        return is_heard

    def close(self) -> None:
        """Listen no more."""
        self._is_closed.set()
        self._thread.join(2 * LISTEN_S)

    def _run(self) -> None:
        is_away = False
        while not self._is_closed.is_set():
            try:
                with self._engine.connect() as connection:
                    connection.exec_driver_sql(f"LISTEN {CHANNEL}")
                    if is_away:
                        log.info("listening.back")
                    is_away = False
                    # Rows may have been committed before the listening began.
                    self._heard.set()
                    self._listen(connection)
            except (DBAPIError, OSError) as error:
                self._say_away(error, is_away)
            except Exception as error:  # psycopg's own, of a connection that breaks while it waits
                if not type(error).__module__.startswith("psycopg"):
                    raise
                self._say_away(error, is_away)
            else:
                continue
            is_away = True
            self._is_closed.wait(RECONNECT_S)

    def _listen(self, connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        while not self._is_closed.is_set():
            for _ in driver.notifies(timeout=LISTEN_S, stop_after=1):
                self._heard.set()

    def _say_away(self, error: Exception, is_away: bool) -> None:
        if not is_away:
            log.warning("listening.away", reason=type(error).__name__)


class SqliteChangeWatch:
    """Asks SQLite whether others have committed; belongs to one thread."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._seen = -1

    def wait(self, timeout_s: float) -> bool:
        """Whether a commit came since the last call; waits for one at most so long."""
        until_s = monotonic_s() + timeout_s
        while (version := self._version()) == self._seen:
            if (left_s := until_s - monotonic_s()) <= 0:
                return False
            time.sleep(min(LOOK_S, left_s))
        self._seen = version
        return True

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _version(self) -> int:
        try:
            if self._connection is None:
                self._connection = self._engine.connect()
            return int(self._connection.exec_driver_sql("PRAGMA data_version").scalar_one())
        except DBAPIError:
            self.close()
            return self._seen
