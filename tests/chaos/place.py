"""One row's names, settings and commands: where everything is and how each process is started."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onceward.servers.keeper import ServerCommand
from onceward.servers.ports import HOST, free_port
from tests.chaos.orders import Kind, topic_of
from tests.chaos.row import Row
from tests.kit.settings import toml
from tests.stack import Servers

ROOT = Path(__file__).parents[2]
LEASE_S = 5
HEARTBEAT_TTL_S = 5
# The least a broker takes.
SESSION_TIMEOUT_S = 6
DRAIN_TIMEOUT_S = 25
PROCESSES = 2
SLOTS_PER_PROCESS = 8
RESEND_AFTER_S = 10
JOURNAL_FILE = "journal.db"


@dataclass(frozen=True, slots=True)
class JournalUrls:
    """The journal as it is, and as workers reach it: through a link that may fail, or the same."""

    direct: str
    of_workers: str


@dataclass(frozen=True, slots=True)
class Modules:
    """Whose `run` is a worker and whose `resend` a resender; other ones have a fault planted.

    Attributes:
        kafka_client: the library of all programs, as `[kafka] client` names it.
    """

    worker: str = "consumer"
    resender: str = "producer_client"
    kafka_client: str = "auto"


REAL = Modules()


class Place:
    """The names of a row, all new, and its settings file.

    Args:
        servers: as workers and clients reach them.
        modules: whose commands are worker and resender.
    """

    def __init__(
        self, row: Row, *, folder: Path, servers: Servers, journal: JournalUrls, modules: Modules
    ) -> None:
        self._row = row
        self._servers = servers
        self._modules = modules
        self.folder = folder
        self.journal = journal
        self.name = f"chaos-{row.fault}-{uuid.uuid4().hex[:8]}"
        self.topics = {kind: topic_of(self.name, kind) for kind in Kind}
        self.bank = f"{HOST}:{free_port()}"
        self.settings_file = folder / "chaos.toml"
        self.settings_file.write_text(toml(self._sections()))

    @property
    def redis(self) -> str:
        """URL of Redis."""
        return self._servers.redis

    @property
    def kafka(self) -> str:
        """Bootstrap servers."""
        return self._servers.kafka

    def bank_command(self) -> ServerCommand:
        """Return the bank's command."""
        port = self.bank.rpartition(":")[2]
        return self._command("bank", (sys.executable, "-m", "tests.kit.bank", "--lines", port), {})

    def worker_command(self, name: str, variables: Mapping[str, str]) -> ServerCommand:
        """Return the command of a worker, with variables for it alone."""
        return self._command(name, self._onceward(self._modules.worker, "run"), variables)

    def resender_command(self) -> ServerCommand:
        """Return the resender's command."""
        return self._command("resender", self._onceward(self._modules.resender, "resend"), {})

    def caller_command(self, name: str, words: tuple[str, ...]) -> ServerCommand:
        """Return the command of a caller."""
        return self._command(name, (sys.executable, "-m", "tests.chaos.caller", *words), {})

    def prune_command(self) -> ServerCommand:
        """Return the command that prunes all of the journal that may be pruned."""
        argv = (*self._onceward("consumer", "prune"), "--older-than-days", "0")
        return self._command("prune", argv, {})

    def relay_command(self, url: str) -> ServerCommand:
        """Return the command of a relay of the outbox in this database."""
        variables = {"ONCEWARD_OUTBOX__URL": url}
        return self._command("relay", self._onceward("producer_client", "relay"), variables)

    def door_command(self, port: int, topic: str) -> ServerCommand:
        """Return the command of a front door, with a log of its own."""
        variables = {"ONCEWARD_HTTP__PORT": str(port), "ONCEWARD_HTTP__TOPICS": topic}
        name = f"door-{len([*self.folder.glob('door-*.log')])}"
        return self._command(name, self._onceward("producer_client", "serve"), variables)

    def _onceward(self, module: str, command: str) -> tuple[str, ...]:
        return (sys.executable, "-m", module, command, "--config", str(self.settings_file))

    def _command(
        self, name: str, argv: tuple[str, ...], variables: Mapping[str, str]
    ) -> ServerCommand:
        given = {
            "CHAOS_TOPICS": self.name,
            "CHAOS_BANK": self.bank,
            "CHAOS_TIME_LIMIT_S": str(self._row.time_limit_s),
        }
        # `env` becomes the program, pid and all.
        environment = [f"{key}={value}" for key, value in (given | dict(variables)).items()]
        log = self.folder / f"{name}.log"
        return ServerCommand(argv=("/usr/bin/env", *environment, *argv), folder=ROOT, log=log)

    def _sections(self) -> dict[str, dict[str, Any]]:
        sections: dict[str, dict[str, Any]] = {
            "kafka": {
                "bootstrap_servers": self._servers.kafka,
                "group": self.name,
                "session_timeout_s": SESSION_TIMEOUT_S,
                "client": self._modules.kafka_client,
            },
            "redis": {"url": self._servers.redis, "heartbeat_ttl_s": HEARTBEAT_TTL_S},
            "journal": {"url": self.journal.of_workers, "lease_s": LEASE_S},
            "worker": {
                "handlers": ["tests.chaos.handlers"],
                "processes": PROCESSES,
                "slots_per_process": SLOTS_PER_PROCESS,
                "drain_timeout_s": DRAIN_TIMEOUT_S,
            },
            "client": {"resend_after_s": RESEND_AFTER_S},
        }
        for name, section in self._row.settings.items():
            sections[name] |= section
        return sections
