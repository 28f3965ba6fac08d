"""What must be there before the first payment: a folder, names, settings, and each command."""

import shutil
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from feedback.errors import NotAvailable
from onceward.servers.keeper import ServerCommand
from onceward.servers.ports import HOST, free_port
from tests.stack import Servers
from tests.stack.servers import JOURNAL, KAFKA

ROOT = Path(__file__).parents[2]
PROCESSES = 2
SLOTS_PER_PROCESS = 4
SETTINGS = """\
# Of the last demo; the servers came from the environment.
[kafka]
group = "{name}"
session_timeout_s = 6       # the least a broker takes: so long a dead worker keeps its partitions
[worker]
handlers = ["tests.demo.handlers"]
processes = {processes}
slots_per_process = {slots}
[client]
topic = "{name}"
resend_after_s = 15         # what is LOST is sent again at once, without waiting for this
poll_interval_s = 2         # an end wakes its client; only a LOST has to be looked for
[outbox]
url = "{outbox}"
[audit]
topics = ["{name}"]
output = "{audit}"
grace_s = 1
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """One run's names and places; topic and group are both `name`, and new."""

    folder: Path
    name: str
    kafka: str
    bank: str
    journal_url: str
    outbox_url: str = ""

    @property
    def settings_file(self) -> Path:
        """The TOML file of workers and client."""
        return self.folder / "demo.toml"

    @property
    def audit_folder(self) -> Path:
        """What the audit writes into."""
        return self.folder / "audit"

    def bank_command(self) -> ServerCommand:
        """Return the bank's command."""
        port = self.bank.rpartition(":")[2]
        return self._command("bank", (sys.executable, "-m", "tests.kit.bank", port))

    def migrate_command(self) -> ServerCommand:
        """Return the command that makes the journal's tables."""
        return self._command("migrate", self._consumer("migrate"))

    def worker_command(self, worker: str) -> ServerCommand:
        """Return the command of a worker; its log goes on where a killed one's ended."""
        return self._command(worker, self._consumer("run"))

    def outbox_command(self) -> ServerCommand:
        """Return the command that makes the outbox' tables."""
        return self._command("outbox", self._producer("outbox", "migrate"))

    def relay_command(self) -> ServerCommand:
        """Return the command of the relay."""
        return self._command("relay", self._producer("relay"))

    def audit_command(self, *, date: str, since: str, until: str) -> ServerCommand:
        """Return the command that judges a time of a day."""
        window = ("--date", date, "--since", since, "--until", until)
        audit = (sys.executable, "-m", "spark_audit", "run", "--config", str(self.settings_file))
        return self._command("audit", (*audit, *window))

    def _consumer(self, command: str) -> tuple[str, ...]:
        return (sys.executable, "-m", "consumer", command, "--config", str(self.settings_file))

    def _producer(self, *command: str) -> tuple[str, ...]:
        words = (sys.executable, "-m", "producer_client", *command)
        return (*words, "--config", str(self.settings_file))

    def _command(self, name: str, argv: tuple[str, ...]) -> ServerCommand:
        # `env` becomes the program, pid and all.
        given = {
            "DEMO_TOPIC": self.name,
            "DEMO_BANK": self.bank,
            KAFKA: self.kafka,
            JOURNAL: self.journal_url,
            "NO_PROXY": HOST,
            "no_proxy": HOST,
        }
        environment = [f"{key}={value}" for key, value in given.items()]
        return ServerCommand(
            argv=("/usr/bin/env", *environment, *argv),
            folder=ROOT,
            log=self.folder / f"{name}.log",
        )


def prepare(
    output: Path, *, journal: str, environ: Mapping[str, str], has_outbox: bool = False
) -> Scene:
    """Empty the demo's folder under `output` and write the settings into it.

    Args:
        journal: `postgres`, the server that the environment names; or `sqlite`, a new file.
        has_outbox: whether there is one, in the journal's server or in a file beside it.

    Raises:
        NotAvailable: the environment does not name the servers.
    """
    servers = Servers.of_environment(environ)
    _require(servers, journal)
    folder = (output / "demo").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    name = f"payments-{uuid.uuid4().hex[:8]}"
    sqlite_url = f"sqlite:///{folder / 'journal.db'}"
    journal_url = servers.postgres if journal == "postgres" else sqlite_url
    beside = servers.postgres if journal == "postgres" else f"sqlite:///{folder / 'outbox.db'}"
    scene = Scene(
        folder=folder,
        name=name,
        kafka=servers.kafka,
        bank=f"{HOST}:{free_port()}",
        journal_url=journal_url,
        outbox_url=beside if has_outbox else "",
    )
    scene.settings_file.write_text(
        SETTINGS.format(
            name=name,
            processes=PROCESSES,
            slots=SLOTS_PER_PROCESS,
            outbox=scene.outbox_url,
            audit=scene.audit_folder.as_posix(),
        )
    )
    return scene


def _require(servers: Servers, journal: str) -> None:
    missing = [name for name in ("kafka", "redis") if not getattr(servers, name)]
    if journal == "postgres" and not servers.postgres:
        missing.append("postgres")
    if missing:
        raise NotAvailable(
            f"the environment names no {' and no '.join(missing)}: run `make demo`, "
            "or `python -m tests.stack -- python -m tests.demo`"
        )
