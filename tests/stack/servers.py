"""Where the servers are: what callers get, and what the environment says about it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

KAFKA = "ONCEWARD_KAFKA__BOOTSTRAP_SERVERS"
REDIS = "ONCEWARD_REDIS__URL"
JOURNAL = "ONCEWARD_JOURNAL__URL"


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
