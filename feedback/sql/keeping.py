"""Connections that a process of many short readings keeps from one to the next: the console.

Each of its pages opens some sessions and closes them. Alone, a session makes an engine and
connects: the server starts a process and reads its catalogue, and we compile each statement anew.
That takes several times as long as the query. While a process is `keeping`, sessions of one
database share an engine, and take a connection that another one has left.

Of each database, time limit and section `MOST_KEPT` wait at most. None is trusted: the server
answers within `ANSWER_S` before one is taken, or another is made. One that is older than `LIFE_S`
is not taken but replaced, so that a name which leads to another server by now is looked up again.
It is closed when its turn comes to be taken, or with all others: where nobody has opened a session
for `IDLE_S`. What changes anything takes none of them (`anew`), and leaves none (`close_all`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from sqlalchemy import Engine, NullPool, QueuePool, event
from sqlalchemy.exc import InvalidatePoolError

from feedback.clock import monotonic_s
from feedback.sql.engine import open_engine

# Further ones are opened as they are needed, and closed after their use.
MOST_KEPT = 4
LIFE_S = 15
IDLE_S = 30.0
# Any server that is well answers sooner. From a silent one the page waits as long in vain, and then
# for a new connection, which has a limit of its own.
ANSWER_S = 1.0


class KeptEngines:
    """The engines of a process, and whether anybody wants them kept. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._engines: dict[object, Engine] = {}
        self._used_at_s = 0.0

    def engine(
        self, url: str, *, timeout_s: float, at_connect: Sequence[str] = (), section: str
    ) -> Engine:
        """Return an engine for a session, which shares it while anybody is `keeping`.

        Args:
            url, timeout_s, at_connect, section: see `open_engine`, which may raise.
        """
        given: dict[str, Any] = {
            "timeout_s": timeout_s,
            "at_connect": at_connect,
            "section": section,
        }
        if not self._holders or _ANEW.get():
            # Without the lock: a child of another thread's fork may be here.
            return open_engine(url, pool=_ALONE, **given)
        # A file is opened at once; and one that is replaced would be read on.
        keeps = not url.startswith("sqlite")
        key = (url, timeout_s, () if keeps else tuple(at_connect), section)
        with self._lock:
            self._used_at_s = monotonic_s()
            found = self._engines.get(key)
            if found is None:
                found = open_engine(url, pool=_KEPT if keeps else _ALONE, **given)
                if keeps:
                    _trust_none(found)
                if self._holders:
                    self._engines[key] = found
        return found

    @contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep connections until the block is left."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                is_over = self._holders == 0
                engines = [*self._engines.values()] if is_over else []
                if is_over:
                    self._engines.clear()
            for one in engines:
                one.dispose()

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Let each session that this thread opens in the block make a connection of its own.

        For what changes anything: where a name has moved, a kept connection leads to the server
        that had it before. That one may answer still, and nobody would see there what was decided.
        """
        before = _ANEW.set(True)
        try:
            yield
        finally:
            _ANEW.reset(before)

    def close_idle(self) -> None:
        """Close all connections where no session was opened for `IDLE_S`."""
        if monotonic_s() - self._used_at_s > IDLE_S:
            self.close_all()

    def close_all(self) -> None:
        """Let each session from now on make a new connection; those in use are not kept.

        After what changes anything: it was done where the names lead now, and is seen there alone.
        """
        with self._lock:
            engines = [*self._engines.values()]
        for one in engines:
            one.dispose()


def _trust_none(engine: Engine) -> None:
    """Let a connection that was left answer before it is used, and end with its pool."""

    @event.listens_for(engine, "checkout")
    def _ask(connection: Any, record: Any, taken: Any) -> None:
        if _POOL not in record.info:
            # The engine may have another pool by now: where all were closed while this connected.
            # SQLAlchemy has no public name for the one that it was taken from.
            record.info[_POOL] = taken._pool
            return
        try:
            connection.ask(within_s=ANSWER_S)
        except engine.dialect.loaded_dbapi.Error as error:
            raise InvalidatePoolError from error

    @event.listens_for(engine, "checkin")
    def _leave(connection: Any, record: Any) -> None:
        # Its pool was disposed of meanwhile: nobody would take it from there.
        if record.info.get(_POOL) is not engine.pool:
            record.invalidate()


_POOL = "onceward_pool"
_ANEW: ContextVar[bool] = ContextVar("onceward_anew", default=False)
_ALONE = {"poolclass": NullPool}
_KEPT = {
    "poolclass": QueuePool,
    "pool_size": MOST_KEPT,
    "max_overflow": -1,
    "pool_recycle": LIFE_S,
    "pool_use_lifo": True,
    "pool_pre_ping": False,
}
KEPT = KeptEngines()
