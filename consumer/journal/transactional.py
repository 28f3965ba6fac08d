"""Transactions of handlers: their writes and the finish of the request, together or not at all.

On SQLite a transaction begins with the first statement that is not a plain SELECT, so a handler
that only reads keeps nobody waiting. From then on it holds SQLite's one write lock until the end:
every claim of the worker waits for it, so a transactional handler writes late and briefly there.
Reads before that see the rows committed at the time, as on PostgreSQL.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, QueuePool, Update, bindparam, event, null, update
from sqlalchemy.exc import DBAPIError

from consumer.journal.clock import now_ms
from consumer.journal.errors import JournalUnavailable, NotBegun, translate
from consumer.journal.history import this_run
from consumer.journal.records import JournalState
from consumer.journal.tables import request
from feedback.clock import monotonic_s
from feedback.sql.engine import open_engine
from feedback.sql.rights import note_hidden_schema

FINISH_LIMIT_MS = 5_000
IDLE_S = 2.0
_FINISHING = "onceward_finishing"
_SELECT = re.compile(r"\s*SELECT\b", re.IGNORECASE)


class Transaction:
    """One handler's transaction on the journal's database.

    Args:
        connection: for the handler's writes; a commit by the handler raises.
    """

    def __init__(self, connection: Connection, group: str, worker_id: str) -> None:
        self.connection = connection
        self._group = group
        self._worker_id = worker_id

    def finish(
        self,
        request_id: str,
        generation: int,
        state: str,
        code: str | None,
        message: str | None,
        result: str | None,
        resend: bool,
    ) -> bool:
        """Commit the handler's writes with its request's end; False when the claim is gone.

        Then all is rolled back: another run of the request counts, this one left nothing.

        Raises:
            JournalUnavailable: it is unknown whether all of it was committed.
            DataRefused: the database refuses the result; all was rolled back.
        """
        values = {
            "this_group": self._group,
            "this_request": request_id,
            "this_generation": generation,
            "this_worker": self._worker_id,
            "to_state": state,
            "to_code": code,
            "to_message": message,
            "to_result": result,
            "to_resend": resend,
        }
        with _translated(self.connection.engine):
            if self.connection.dialect.name == "postgresql":
                self.connection.exec_driver_sql(_BEFORE_FINISH)
            if self.connection.execute(_FINISH, values).rowcount == 1:
                self.connection.info[_FINISHING] = True
                self.connection.commit()
                return True
            self.connection.rollback()
            return False


class Transactions:
    """Gives handlers transactions on the journal's database; for use from several threads.

    Args:
        worker_id: whose claims they end.
        timeout_s: the longest wait for a connection and, on SQLite, for its write lock.

    Raises:
        ValueError: the worker has no id: each of its finishes would be refused.
    """

    def __init__(self, url: str, group: str, worker_id: str, *, timeout_s: float = 10.0) -> None:
        if not worker_id:
            raise ValueError("a worker without an id has no claims to end")
        self._group = group
        self._worker_id = worker_id
        # As many connections as threads ask for: the slots of the child are the bound.
        pool = {"poolclass": QueuePool, "max_overflow": -1}
        self._engine = open_engine(url, timeout_s=timeout_s, pool=pool, bounded=False)
        self._lock = threading.Lock()
        self._in_use = 0
        self._used_s = monotonic_s()
        self._closed = threading.Event()
        self._keeper: threading.Thread | None = None
        event.listen(self._engine, "commit", _only_by_finish)
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "before_cursor_execute", _begin_before_write)

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        """Yield a transaction; leaving the block without its `finish` rolls all back.

        Raises:
            NotBegun: the database is away, or has no connection left.
        """
        self._use(1)
        try:
            connection = self._connect()
            try:
                yield Transaction(connection, self._group, self._worker_id)
            finally:
                connection.close()
        finally:
            self._use(-1)

    def close(self) -> None:
        """Close the connections that no handler uses."""
        self._closed.set()
        self._engine.dispose()

    def _connect(self) -> Connection:
        try:
            with _translated(self._engine):
                return self._engine.connect()
        except JournalUnavailable as error:
            raise NotBegun(error.reason).because(error.fault) from None

    def _use(self, change: int) -> None:
        with self._lock:
            self._in_use += change
            self._used_s = monotonic_s()
            if self._keeper is None:
                self._keeper = threading.Thread(
                    target=self._close_idle, name="onceward-transactions", daemon=True
                )
                self._keeper.start()

    def _close_idle(self) -> None:
        """Give back connections that nobody uses: other workers may want for them."""
        while not self._closed.wait(IDLE_S):
            with self._lock:
                if not self._in_use and monotonic_s() - self._used_s >= IDLE_S:
                    self._engine.dispose()


def _only_by_finish(connection: Connection) -> None:
    # Half of a handler's writes, committed early, would stay when its run dies and be done twice.
    if not connection.info.pop(_FINISHING, False):
        raise RuntimeError(
            "a transactional handler must not commit: its writes are committed with its finish"
        )


def _begin_before_write(
    connection: Connection, cursor: Any, statement: str, *_: object, **__: object
) -> None:
    # Left to itself the driver begins nothing: `isolation_level` is None. A transaction that began
    # with a read could not write once anybody else had committed (SQLITE_BUSY_SNAPSHOT), so the
    # first write begins it, and takes the write lock at once.
    if not cursor.connection.in_transaction and not _SELECT.match(statement):
        cursor.connection.execute("BEGIN IMMEDIATE")


@contextmanager
def _translated(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        note_hidden_schema(error, engine, "journal")
        translated = translate(error)
        if translated is None:
            raise
        raise translated from None


def _conditional_finish() -> Update:
    return (
        update(request)
        .where(
            this_run(),
            request.c.state == JournalState.CLAIMED.value,
            request.c.owner == bindparam("this_worker"),
        )
        .values(
            state=bindparam("to_state"),
            code=bindparam("to_code"),
            message=bindparam("to_message"),
            result=bindparam("to_result"),
            resend=bindparam("to_resend"),
            due_at=null(),
            finished_at=now_ms(),
            published_at=null(),
        )
    )


_FINISH = _conditional_finish()
# Frozen between here and the commit, this process would hold its row's lock for hours, and every
# worker that wants to go on with the request would wait for it. And a finish that a crash of the
# database forgets would be told, and run again.
_BEFORE_FINISH = (
    f"SELECT set_config('idle_in_transaction_session_timeout', '{FINISH_LIMIT_MS}', true), "
    "CASE WHEN current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') "
    "THEN set_config('synchronous_commit', 'on', true) END"
)
