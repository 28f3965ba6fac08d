"""The servers of a bench, in this process: real tables, the real script, an endless lease."""

from __future__ import annotations

import sqlite3
import uuid
from functools import cache

from consumer.journal.schema import migrate
from feedback.errors import NotAvailable
from feedback.redis.store import StatusStore
from feedback.settings.sections import RedisSection


class MemoryJournal:
    """An empty journal; it lives as long as this object.

    Attributes:
        url: opens it, in this process.
        is_away: whether it answers nobody.
    """

    def __init__(self) -> None:
        self.is_away = False
        self.url, self._kept = _open()
        _template().backup(self._kept)

    def go_away(self) -> None:
        """Answer nobody: SQLite's exclusive lock, taken while no transaction is open."""
        if not self.is_away:
            self._kept.execute("BEGIN EXCLUSIVE")
        self.is_away = True

    def come_back(self) -> None:
        """Answer again."""
        if self.is_away:
            self._kept.rollback()
        self.is_away = False

    def close(self) -> None:
        """Forget it."""
        self._kept.close()


class EndlessLease:
    """A lease that never ends."""

    def lease_holds(self, now_s: float) -> bool:
        """Return True."""
        return True

    def may_sweep(self, now_s: float) -> bool:
        """Return True."""
        return True

    def unbroken_since_s(self, now_s: float) -> float | None:
        """Return the beginning of all time."""
        return 0.0


def memory_store(group: str) -> StatusStore:
    """Return an empty store of statuses.

    Raises:
        NotAvailable: fakeredis is not installed.
    """
    try:
        from fakeredis import FakeRedis, FakeServer
    except ModuleNotFoundError as error:
        raise NotAvailable("no fakeredis: pip install 'onceward[testing]'") from error
    return StatusStore(FakeRedis(server=FakeServer()), group, RedisSection())


def _open() -> tuple[str, sqlite3.Connection]:
    name = f"file:onceward-{uuid.uuid4().hex}?mode=memory&cache=shared"
    return f"sqlite:///{name}&uri=true", sqlite3.connect(name, uri=True, check_same_thread=False)


@cache
def _template() -> sqlite3.Connection:
    """Return a migrated journal: a copy of it costs a tenth of a migration."""
    url, connection = _open()
    migrate(url)
    return connection
