"""Where the servers are: what callers get, and what the environment says about it."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

KAFKA = "ONCEWARD_KAFKA__BOOTSTRAP_SERVERS"
REDIS = "ONCEWARD_REDIS__URL"
JOURNAL = "ONCEWARD_JOURNAL__URL"
CONNECT_LIMIT_S = 2.0
_USUAL_PORTS = {"kafka": 9092, "redis": 6379, "rediss": 6379}
_POSTGRES_PORT = 5432


@dataclass(frozen=True, slots=True)
class Servers:
    """Bootstrap servers of Kafka, URL of Redis, SQLAlchemy URL of PostgreSQL; empty: none."""

    kafka: str = ""
    redis: str = ""
    postgres: str = ""

    @classmethod
    def of_environment(cls, environ: Mapping[str, str]) -> Self:
        """Return the servers that the settings of Onceward name.

        A journal in SQLite is no server:

        >>> Servers.of_environment({"ONCEWARD_JOURNAL__URL": "sqlite:///journal.db"}).postgres
        ''
        """
        journal = environ.get(JOURNAL, "")
        return cls(
            kafka=environ.get(KAFKA, ""),
            redis=environ.get(REDIS, ""),
            postgres=journal if journal.startswith("postgresql") else "",
        )

    def settings(self) -> dict[str, str]:
        """Return the settings that name these servers, those that are none left out.

        >>> Servers(redis="redis://127.0.0.1:6379/0").settings()
        {'ONCEWARD_REDIS__URL': 'redis://127.0.0.1:6379/0'}
        """
        named = {KAFKA: self.kafka, REDIS: self.redis, JOURNAL: self.postgres}
        return {name: value for name, value in named.items() if value}

    def faults(self) -> dict[str, str]:
        """Return the settings whose server accepts no connection, and why, never with a password.

        Of several brokers one is enough. A socket in the file system is not tried.
        """
        brokers = [f"kafka://{one.strip()}" for one in self.kafka.split(",") if one.strip()]
        urls = {KAFKA: brokers, REDIS: [self.redis], JOURNAL: [self.postgres]}
        tried = {name: [_fault(url) for url in urls[name]] for name in self.settings()}
        return {name: ", ".join(found) for name, found in tried.items() if all(found)}


def _fault(url: str) -> str:
    """Say why nothing can connect to the server of a URL; empty when something can."""
    parts = urlsplit(url)
    if parts.hostname is None:
        return ""
    try:
        port = parts.port or _USUAL_PORTS.get(parts.scheme, _POSTGRES_PORT)
    except ValueError as error:
        return f"{parts.hostname}: {error}"
    try:
        socket.create_connection((parts.hostname, port), timeout=CONNECT_LIMIT_S).close()
    except OSError as error:
        return f"{parts.hostname}:{port}: {error}"
    return ""
