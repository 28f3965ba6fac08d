"""PostgreSQL on a port of its own, with the durability it has by default."""

import os
import pwd
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from onceward.servers.keeper import ServerCommand
from onceward.servers.packages import program
from onceward.servers.ports import HOST, free_port

USER = "postgres"
# Benchmarks run on it, so a commit is on disk when it returns.
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    # In its folder, which goes with it: a killed server leaves what it has in /dev/shm.
    "dynamic_shared_memory_type": "mmap",
}


def dsn(url: str) -> str:
    """Return a SQLAlchemy URL as psycopg takes it.

    >>> dsn("postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
    'postgresql://postgres@127.0.0.1:5432/postgres'
    """
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


@dataclass(frozen=True, slots=True)
class Postgres:
    """One PostgreSQL server; its superuser is `postgres`, without a password, on loopback only.

    Attributes:
        settings: of the server, over those of the stack.
    """

    kind: ClassVar[str] = "postgres"

    port: int = field(default_factory=free_port)
    name: str = "postgres"
    ready_within_s: float = 30.0
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """SQLAlchemy URL of its first database."""
        return f"postgresql+psycopg://{USER}@{HOST}:{self.port}/postgres"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Return `initdb`, after giving the folder to the user it will run as."""
        user = server_user()
        if user is not None:
            shutil.chown(folder, user)
        data = folder / "data"
        options = f"--username={USER} --auth=trust --encoding=UTF8 --locale=C --no-sync"
        argv = (program("initdb"), f"--pgdata={data}", *options.split())
        return (ServerCommand(argv=argv, folder=folder, log=folder / "initdb.log", user=user),)

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command.

        It is ended by SIGQUIT, the immediate shutdown: SIGTERM would wait for every client to
        leave, and SIGKILL would leave shared memory behind.
        """
        chosen = {**SETTINGS, **self.settings}
        settings = [word for name, value in chosen.items() for word in ("-c", f"{name}={value}")]
        data = folder / "data"
        return ServerCommand(
            argv=(program("postgres"), "-D", str(data), "-p", str(self.port), *settings),
            folder=folder,
            log=folder / "postgres.log",
            user=server_user(),
            stop_signal=signal.SIGQUIT,
            # The fast shutdown: clients are told and cut, the data is left as after a checkpoint.
            orderly_signal=signal.SIGINT,
            death_signal=signal.SIGQUIT,
        )

    def answers(self, folder: Path) -> bool:
        """Say whether a query runs, and on this folder's data."""
        try:
            with psycopg.connect(dsn(self.address), connect_timeout=2) as connection:
                row = connection.execute("SHOW data_directory").fetchone()
        except psycopg.OperationalError:
            return False
        return row == (str(folder / "data"),)


@contextmanager
def fresh_database(url: str, name: str) -> Iterator[str]:
    """Create the database `name` on the server of `url`; drop it, clients or not, at the end.

    Yields:
        `url` with the new database in place of its own.
    """
    with psycopg.connect(dsn(url), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield _with_database(url, name)
    finally:
        with psycopg.connect(dsn(url), autocommit=True) as admin:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            admin.execute(drop.format(sql.Identifier(name)))


def _with_database(url: str, name: str) -> str:
    """Replace the path of a URL.

    >>> _with_database("postgresql+psycopg://me@localhost/postgres?sslmode=disable", "mine")
    'postgresql+psycopg://me@localhost/mine?sslmode=disable'
    """
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{name}"))


def server_user() -> str | None:
    """Return whom to run as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
