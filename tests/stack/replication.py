"""PostgreSQL with a standby, by its own streaming replication: it lags, and it is promoted.

An asynchronous standby does not have what it had not received when it was promoted, although the
primary had acknowledged it. A synchronous one has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from onceward.servers.keeper import Keeper, ServerCommand
from onceward.servers.packages import program
from onceward.servers.ports import HOST
from tests.eventually import eventually
from tests.stack.installing import install
from tests.stack.postgres import USER, Postgres, dsn
from tests.stack.restartable import Restartable

STANDBY = "standby"
WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Standby(Postgres):
    """A server that begins as a copy of another one and follows it.

    Attributes:
        follows: the SQLAlchemy URL of the primary.
    """

    follows: str = ""
    name: str = STANDBY

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Return the copying, after giving the folder to the user it will run as."""
        (initdb,) = Postgres.prepare(self, folder)
        source = f"{dsn(self.follows)}?application_name={STANDBY}"
        options = "--write-recovery-conf --wal-method=stream --checkpoint=fast --no-sync"
        argv = (
            program("pg_basebackup"),
            f"--pgdata={folder / 'data'}",
            f"--dbname={source}",
            *options.split(),
        )
        return (ServerCommand(argv=argv, folder=folder, log=folder / "copy.log", user=initdb.user),)


class Replicated:
    """A primary and its standby.

    Args:
        primary: acknowledges commits.
        standby: gets them, as long as it does not lag.
    """

    def __init__(self, primary: Restartable, standby: Restartable) -> None:
        self.primary = primary
        self.standby = standby

    def url(self, database: str = "postgres") -> str:
        """Return a SQLAlchemy URL that leads to whichever of the two takes writes."""
        both = (self.primary, self.standby)
        ports = ",".join(str(urlsplit(one.address).port) for one in both)
        where = f"host={HOST},{HOST}&port={ports}&target_session_attrs=read-write"
        return f"postgresql+psycopg://{USER}@/{database}?{where}"

    def lag(self) -> None:
        """Let the standby receive nothing more; return when that is so."""
        _execute(self.standby, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
        self._await_receiver(0)

    def follow(self) -> None:
        """Let the standby follow again; return when it has all that the primary has."""
        _execute(self.standby, "ALTER SYSTEM RESET primary_conninfo", "SELECT pg_reload_conf()")
        self.catch_up()

    def catch_up(self) -> None:
        """Return when the standby has, and shows, all that the primary has acknowledged."""
        (written,) = _execute(self.primary, "SELECT pg_current_wal_lsn()::text")
        asked = f"SELECT pg_last_wal_replay_lsn() >= '{written}'::pg_lsn"
        eventually(lambda: _execute(self.standby, asked) == [True], timeout_s=WITHIN_S)

    def promote(self) -> None:
        """Let the standby take writes; the primary is left as it is, fenced or not."""
        _execute(self.standby, "SELECT pg_promote(true, 30)")

    def fail_over(self) -> None:
        """Kill the primary and promote the standby: what it had not received is gone."""
        self.primary.kill()
        self.promote()

    def _await_receiver(self, count: int) -> None:
        asked = "SELECT count(*) FROM pg_stat_wal_receiver"
        eventually(lambda: _execute(self.standby, asked) == [count], timeout_s=WITHIN_S)


@contextmanager
def replicated(*, synchronous: bool = False) -> Iterator[Replicated]:
    """Yield a primary and a standby that follows it; both are gone after the block.

    Args:
        synchronous: whether a commit waits for the standby.
    """
    install([Postgres.kind])
    settings = {"synchronous_standby_names": STANDBY if synchronous else ""}
    with Keeper() as keeper:
        primary = Restartable(keeper, lambda: Postgres(settings=settings))
        standby = Restartable(keeper, lambda: Standby(follows=primary.address))
        pair = Replicated(primary, standby)
        pair._await_receiver(1)
        yield pair


def _execute(server: Restartable, *statements: str) -> list[object]:
    """Run statements outside of any transaction; return the first column of the last one."""
    with psycopg.connect(dsn(server.address), autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return [row[0] for row in cursor.fetchall()] if cursor.description else []
