"""Redis over TLS that lets in named users alone, each with its own commands, keys and channels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast
from urllib.parse import quote

import redis

from onceward.servers.keeper import ServerCommand
from onceward.servers.packages import program
from onceward.servers.ports import HOST, free_port
from tests.stack.authority import Authority
from tests.stack.restartable import Restartable, restartable

ADMIN, ADMIN_PASSWORD = "admin", "of-the-admin"


@dataclass(frozen=True, slots=True)
class TlsRedis:
    """One Redis server that listens over TLS alone; `admin` may do everything, others nothing.

    Attributes:
        certificate: of the server: key and certificate in one file.
        cafile: of its authority.
        clients: whether clients need a certificate: `yes`, `optional` or `no`.
    """

    kind: ClassVar[str] = "redis"

    certificate: Path
    cafile: Path
    clients: str = "optional"
    port: int = field(default_factory=free_port)
    name: str = "redis"
    ready_within_s: float = 20.0

    @property
    def address(self) -> str:
        """URL of its first database, without a user."""
        return f"rediss://{HOST}:{self.port}/0"

    def prepare(self, folder: Path) -> tuple[ServerCommand, ...]:
        """Nothing to prepare."""
        return ()

    def command(self, folder: Path) -> ServerCommand:
        """Return the server's command; a stop has nothing to save."""
        listens = ("--bind", HOST, "--port", "0", "--tls-port", str(self.port))
        files = ("--tls-cert-file", "--tls-key-file")
        tls = [word for name in files for word in (name, str(self.certificate))]
        trust = ("--tls-ca-cert-file", str(self.cafile), "--tls-auth-clients", self.clients)
        rights = ("on", f">{ADMIN_PASSWORD}", "~*", "&*", "+@all")
        users = ("--user", ADMIN, *rights, "--user", "default", "off")
        data = ("--dir", str(folder), "--appendonly", "no", "--save", "")
        argv = (program("redis-server"), *listens, *tls, *trust, *users, *data)
        return ServerCommand(argv=argv, folder=folder, log=folder / "redis.log")

    def answers(self, folder: Path) -> bool:
        """Say whether it answers, and from this folder."""
        try:
            with closing(self.connected()) as client:
                return bool(client.config_get("dir")["dir"] == str(folder))
        except redis.RedisError:
            return False

    def connected(self) -> redis.Redis:
        """Return a client that may do everything."""
        return redis.Redis(
            host=HOST,
            port=self.port,
            ssl=True,
            ssl_ca_certs=str(self.cafile),
            ssl_certfile=str(self.certificate),
            ssl_keyfile=str(self.certificate),
            username=ADMIN,
            password=ADMIN_PASSWORD,
            socket_timeout=5.0,
        )


@dataclass(frozen=True, slots=True)
class SecuredRedis:
    """A Redis over TLS, and its users.

    Attributes:
        cafile: its users trust the server's certificate by it.
        admin: a client that may do everything.
        server: the server itself; the users are gone after it was killed.
    """

    address: str
    cafile: Path
    admin: redis.Redis
    server: Restartable

    def url(self, user: str, password: str) -> str:
        """Return the URL of a user."""
        who = f"{quote(user, safe='')}:{quote(password, safe='')}"
        address = self.address.replace("rediss://", f"rediss://{who}@", 1)
        return f"{address}?ssl_ca_certs={quote(str(self.cafile))}"

    def set_user(self, user: str, *rules: str) -> None:
        """Change a user by rules of `ACL SETUSER`, as `+get` or `~onceward:*`; make a new one."""
        cast("Any", self.admin).execute_command("ACL", "SETUSER", user, *rules)

    def set_password(self, user: str, password: str) -> None:
        """Give a user another password; connections that are open stay open."""
        self.set_user(user, "on", "resetpass", f">{password}")


@contextmanager
def secured_redis(authority: Authority) -> Iterator[SecuredRedis]:
    """Yield a Redis of one's own, gone after the block.

    Raises:
        StackError: it is not installed or did not start.
    """
    certificate = authority.issue("redis")

    def choose() -> TlsRedis:
        made.append(TlsRedis(certificate.both, authority.cafile))
        return made[-1]

    made: list[TlsRedis] = []
    with restartable(choose) as server, closing(made[-1].connected()) as admin:
        yield SecuredRedis(server.address, authority.cafile, admin, server)
