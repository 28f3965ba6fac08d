"""Kafka, Redis and PostgreSQL as a bank has them: TLS, passwords, and a user for each role.

No user has a right before it is given one. `Secured.settings` has the sections of one user's
settings; the three servers give and take rights, and change passwords.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.stack.authority import Authority
from tests.stack.secured import SecuredKafka, secured_kafka
from tests.stack.secured_postgres import SecuredPostgres, secured_postgres
from tests.stack.secured_redis import SecuredRedis, secured_redis

Sections = dict[str, dict[str, Any]]

ROLES = ("worker", "client", "resender", "relay", "registry", "operator", "auditor", "migrate")
MECHANISM = "SCRAM-SHA-512"
# Who may log in to Kafka by SASL's PLAIN too: a broker reads these at its start alone.
PLAIN_USER, PLAIN_PASSWORD = "plain", "of-plain"


def password_of(user: str) -> str:
    """Return the first password of a user, which has to be quoted nearly everywhere.

    >>> password_of("worker")
    'of the worker: $HOME/"\\\\;@?#%41'
    """
    return f'of the {user}: $HOME/"\\;@?#%41'


@dataclass(frozen=True, slots=True)
class Secured:
    """The three servers.

    Attributes:
        authority: signed the certificates of all of them.
    """

    authority: Authority
    kafka: SecuredKafka
    redis: SecuredRedis
    postgres: SecuredPostgres

    def settings(self, user: str, *, group: str, database: str) -> Sections:
        """Return the sections of settings by which a user reaches all servers.

        Args:
            user: one of those that the stack was started with.
            database: of the journal and of the outbox; see `SecuredPostgres.database`.
        """
        password = password_of(user)
        url = self.postgres.url(user, password, database)
        return {
            "kafka": {
                "bootstrap_servers": self.kafka.address,
                "group": group,
                "security_protocol": "SASL_SSL",
                "ssl_cafile": str(self.authority.cafile),
                "sasl_mechanism": MECHANISM,
                "sasl_plain_username": user,
                "sasl_plain_password": password,
            },
            "redis": {"url": self.redis.url(user, password)},
            "journal": {"url": url},
            "outbox": {"url": url},
        }

    def set_password(self, user: str, password: str) -> None:
        """Give a user another password everywhere; connections that are open stay open."""
        self.kafka.set_password(user, password)
        self.redis.set_password(user, password)
        self.postgres.set_password(user, password)


@contextmanager
def secured_stack(folder: Path, *, users: Sequence[str] = ROLES) -> Iterator[Secured]:
    """Yield secured servers with users who may do nothing yet; gone after the block.

    Args:
        folder: for certificates.

    Raises:
        StackError: a server is not installed or did not start.
    """
    authority = Authority(folder)
    passwords = {user: password_of(user) for user in users}
    plain = {PLAIN_USER: PLAIN_PASSWORD}
    kafka = partial(
        secured_kafka, folder, plain=plain, scram=passwords | plain, authority=authority
    )
    with ExitStack() as ends, ThreadPoolExecutor(1) as thread:
        broker = thread.submit(lambda: ends.enter_context(kafka()))
        redis = ends.enter_context(secured_redis(authority))
        postgres = ends.enter_context(secured_postgres(authority))
        for user, password in passwords.items():
            redis.set_password(user, password)
            postgres.set_password(user, password)
        yield Secured(authority, broker.result(), redis, postgres)
