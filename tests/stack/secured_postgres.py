"""PostgreSQL over TLS, whose users have passwords and no right but those that they are given."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import quote

import psycopg
from psycopg import sql

from onceward.servers.keeper import ServerCommand
from onceward.servers.ports import HOST
from tests.stack.authority import Authority, Certificate
from tests.stack.postgres import USER, Postgres, dsn, fresh_database, server_user
from tests.stack.restartable import Restartable, restartable

# The superuser is for the tests; all others come over TLS and with a password.
_ACCESS = f"""\
host all {USER} {HOST}/32 trust
hostssl all all {HOST}/32 scram-sha-256
"""


@dataclass(frozen=True, slots=True)
class TlsPostgres(Postgres):
    """One PostgreSQL server with a certificate.

    Attributes:
        certificate: of the server.
        access: who may connect, as `pg_hba.conf` says it.
        cafile: of the authority of clients' certificates; none where they have passwords.
    """

    certificate: Certificate = field(kw_only=True)
    access: str = field(default=_ACCESS, kw_only=True)
    cafile: Path | None = field(default=None, kw_only=True)

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Write who may connect, and the key where its user alone can read it."""
        access, key = folder / "access.conf", folder / "server.key"
        access.write_text(self.access)
        trusted = [] if self.cafile is None else [(self.cafile, _trusted(folder))]
        own = ((self.certificate.key, key), (self.certificate.cert, _cert(folder)))
        for source, target in (*own, *trusted):
            shutil.copyfile(source, target)
            target.chmod(0o600)
            if (user := server_user()) is not None:
                shutil.chown(target, user)
        return super(TlsPostgres, self).prepare(folder)

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command."""
        tls: dict[str, object] = {
            "ssl": "on",
            "ssl_cert_file": _cert(folder),
            "ssl_key_file": folder / "server.key",
        }
        if self.cafile is not None:
            tls["ssl_ca_file"] = _trusted(folder)
        given = {**tls, "hba_file": folder / "access.conf", **self.settings}
        settings = {name: str(value) for name, value in given.items()}
        return Postgres(port=self.port, name=self.name, settings=settings).command(folder)


@dataclass(frozen=True, slots=True)
class SecuredPostgres:
    """A PostgreSQL over TLS, and its users.

    Attributes:
        address: the SQLAlchemy URL of its superuser, on loopback without TLS.
        cafile: its users trust the server's certificate by it.
        server: the server itself.
    """

    address: str
    cafile: Path
    server: Restartable

    def url(self, user: str, password: str, database: str) -> str:
        """Return the SQLAlchemy URL of a user, who checks certificate and host name."""
        port = self.address.rpartition(":")[2].partition("/")[0]
        who = f"{quote(user, safe='')}:{quote(password, safe='')}"
        trust = f"sslmode=verify-full&sslrootcert={quote(str(self.cafile))}"
        return f"postgresql+psycopg://{who}@{HOST}:{port}/{quote(database)}?{trust}"

    def run(self, statement: str, *, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run a statement as superuser and return its rows."""
        address = self.address.rpartition("/")[0]
        with psycopg.connect(dsn(f"{address}/{database}"), autocommit=True) as admin:
            found = admin.execute(statement.encode())
            return found.fetchall() if found.description else []

    def set_password(self, user: str, password: str) -> None:
        """Make a user, or give one another password; connections that are open stay open."""
        known = self.run("SELECT rolname FROM pg_roles")
        verb: LiteralString = "ALTER" if (user,) in known else "CREATE"
        statement = sql.SQL(verb + " ROLE {} LOGIN PASSWORD {}")
        self.run(statement.format(sql.Identifier(user), sql.Literal(password)).as_string())

    @contextmanager
    def database(self, name: str) -> Iterator[str]:
        """Yield the name of a new database in which nobody has a right; drop it at the end."""
        with fresh_database(self.address, name):
            database = sql.Identifier(name)
            for statement in (
                sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database),
                sql.SQL("REVOKE ALL ON SCHEMA public FROM PUBLIC"),
            ):
                self.run(statement.as_string(), database=name)
            yield name


@contextmanager
def secured_postgres(authority: Authority) -> Iterator[SecuredPostgres]:
    """Yield a PostgreSQL of one's own, gone after the block.

    Raises:
        StackError: it is not installed or did not start.
    """
    certificate = authority.issue("postgres")
    with restartable(lambda: TlsPostgres(certificate=certificate)) as server:
        yield SecuredPostgres(server.address, authority.cafile, server)


def _cert(folder: Path) -> Path:
    return folder / "server.crt"


def _trusted(folder: Path) -> Path:
    return folder / "clients.crt"
