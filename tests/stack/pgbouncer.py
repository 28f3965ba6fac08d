"""PgBouncer in transaction mode: a server connection is somebody else's after each transaction."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import psycopg

from onceward.servers.keeper import Keeper, ServerCommand
from onceward.servers.launch import launch
from onceward.servers.packages import program
from onceward.servers.ports import HOST, free_port
from tests.stack.installing import install
from tests.stack.postgres import USER, dsn, server_user

SETTINGS = """\
[databases]
* = host={host} port={upstream} user={user}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
"""


@dataclass(frozen=True, slots=True)
class PgBouncer:
    """One pooler before one server; it lets everybody in as that server's superuser.

    Attributes:
        upstream: the SQLAlchemy URL of a database; the pooler's address leads to the same.
        pool_size: how many server connections its clients share.
    """

    kind: ClassVar[str] = "pgbouncer"

    upstream: str
    pool_size: int = 1
    port: int = field(default_factory=free_port)
    name: str = "pgbouncer"
    ready_within_s: float = 20.0

    @property
    def address(self) -> str:
        """SQLAlchemy URL of the database, through the pooler."""
        return urlsplit(self.upstream)._replace(netloc=f"{USER}@{HOST}:{self.port}").geturl()

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Write the settings where the user that it will run as can read them."""
        given = {"host": HOST, "port": self.port, "user": USER, "pool_size": self.pool_size}
        text = SETTINGS.format(upstream=urlsplit(self.upstream).port, **given)
        (folder / "pgbouncer.ini").write_text(text)
        if (user := server_user()) is not None:
            shutil.chown(folder, user)
        return ()

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command."""
        return ServerCommand(
            argv=(program("pgbouncer"), str(folder / "pgbouncer.ini")),
            folder=folder,
            log=folder / "pgbouncer.log",
            user=server_user(),
        )

    def answers(self, folder: Path) -> bool:
        """Say whether a query runs, and on the server behind it."""
        try:
            with psycopg.connect(dsn(self.address), connect_timeout=2) as connection:
                row = connection.execute("SELECT inet_server_port()").fetchone()
        except psycopg.OperationalError:
            return False
        return row == (urlsplit(self.upstream).port,)


@contextmanager
def pooler(upstream: str, *, pool_size: int = 1) -> Iterator[str]:
    """Yield the SQLAlchemy URL of a database through a pooler of its own; see `PgBouncer`.

    Raises:
        StackError: it is not installed or did not start.
    """
    install([PgBouncer.kind])
    with Keeper() as keeper:
        yield launch(keeper, lambda: PgBouncer(upstream=upstream, pool_size=pool_size)).address
