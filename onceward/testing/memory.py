"""The servers of a bench, in this process: real tables, the real script, an endless lease."""

from __future__ import annotations

import sqlite3
import uuid
from functools import cache

from sqlalchemy import update
from sqlalchemy.dialects import sqlite

from consumer.journal.schema import migrate
from consumer.journal.tables import request, run
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

    def age(self, by_ms: int) -> None:
        """Let time pass: every stored time of requests and runs is older by that."""
        was_away = self.is_away
        self.come_back()
        for table in (request, run):
            times = {one: one - by_ms for one in table.columns if one.name.endswith("_at")}
            said = (
                update(table)
                .values(times)
                .compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
            )
            self._kept.execute(str(said))
        self._kept.commit()
        if was_away:
            self.go_away()

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
