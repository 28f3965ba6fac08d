"""A group on secured servers: each role has its user, and the rights that it is given."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kafka.admin import ACLOperation, KafkaAdminClient, NewTopic, ResourceType
from sqlalchemy import Connection, NullPool, create_engine

from consumer.journal import migrate
from feedback.rights.needed import Role
from feedback.settings.settings import Settings, load
from producer_client import outbox
from tests import preloaded
from tests.consumer.running import COMMAND_LIMIT_S, RunningWorker
from tests.kit.program import StartedProgram
from tests.kit.settings import environment, write_settings
from tests.stack import StackError
from tests.stack.secured_stack import Secured, password_of

HANDLERS = "tests.consumer.ops.rights.rights_handlers"
HANDLED = ("pay", "keep")
BESIDE = ("retry.300ms", "dlq", "wait")
KINDS = {
    "--topic": ResourceType.TOPIC,
    "--group": ResourceType.GROUP,
    "--transactional-id": ResourceType.TRANSACTIONAL_ID,
}
OPERATIONS = {
    "Read": ACLOperation.READ,
    "Write": ACLOperation.WRITE,
    "Create": ACLOperation.CREATE,
    "Describe": ACLOperation.DESCRIBE,
    "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS,
}


class RightsStage:
    """One group, its topics and its database, and no rights at first.

    Args:
        secured: the servers.
        database: one in which nobody has a right.
        folder: for settings and logs.
    """

    def __init__(self, secured: Secured, database: str, folder: Path) -> None:
        self.secured = secured
        self.database = database
        self.folder = folder
        self.group = f"group-{uuid.uuid4().hex}"
        self.topics = {name: f"{name}-{uuid.uuid4().hex}" for name in (*HANDLED, "outcomes")}
        self.programs: list[StartedProgram] = []
        self._grants: dict[tuple[Role, str], list[str]] = {}
        with KafkaAdminClient(bootstrap_servers=secured.kafka.plain) as admin:
            admin.create_topics([NewTopic(name, 1, 1) for name in self.topics.values()])
            admin.wait_for_topics([*self.topics.values()])

    def close(self) -> None:
        """End the programs, and take all rights away."""
        for one in self.programs:
            one.kill()
        for role in Role:
            self.take_all_away(role)

    @property
    def wait_topic(self) -> str:
        """The wait topic of the handler that is at least once."""
        return f"{self.topics['keep']}.{self.group}.wait"

    # settings --------------------------------------------------------------------------------

    def config(self, role: Role, **changes: Mapping[str, Any]) -> Path:
        """Write the settings of a role, with short times, and return their file."""
        own = self.secured.settings(role, group=self.group, database=self.database)
        more: dict[str, dict[str, Any]] = {
            "redis": {"heartbeat_ttl_s": 2},
            "journal": {"lease_s": 2},
            "registry": {"lease_s": 2},
            "worker": {"handlers": [HANDLERS], "drain_timeout_s": 5},
            "client": {"poll_interval_s": 0.5, "topic": self.topics["pay"]},
            "audit": {"topics": [self.topics[name] for name in HANDLED]},
        }
        return write_settings(self.folder, own, more, changes)

    def settings(self, role: Role) -> Settings:
        """Return the settings of a role."""
        return load(self.config(role))

    def variables(self) -> dict[str, str]:
        """Return the environment that the handlers read."""
        return {"TEST_TOPICS": json.dumps(self.topics), "TEST_FOLDER": str(self.folder)}

    def make_beside(self) -> None:
        """Make the topics beside those of requests, compacted."""
        prefixes = [f"{self.topics[of]}.{self.group}" for of in HANDLED]
        names = [f"{prefix}.{end}" for prefix in prefixes for end in BESIDE]
        compacted = {
            "num_partitions": 1,
            "replication_factor": 1,
            "configs": {"cleanup.policy": "compact"},
        }
        with KafkaAdminClient(bootstrap_servers=self.secured.kafka.plain) as admin:
            admin.create_topics(dict.fromkeys(names, compacted))
            admin.wait_for_topics(names)

    @contextmanager
    def connected(self, url: str) -> Iterator[Connection]:
        """Yield a connection of a program of the user's."""
        engine = create_engine(url, poolclass=NullPool)
        with engine.connect() as connection:
            yield connection

    # rights ----------------------------------------------------------------------------------

    def migrate(self) -> None:
        """Make all tables, as superuser."""
        url = self.secured.postgres.address.rpartition("/")[0] + f"/{self.database}"
        migrate(url)
        outbox.migrate(url)

    def grants(self, role: Role, form: str) -> list[str]:
        """Return the commands of one format that `onceward-worker rights` prints."""
        if (role, form) not in self._grants:
            asked = ("rights", "--role", role, "--format", form)
            ran = self.command("consumer", *asked, role=role)
            assert (ran.returncode, ran.stderr) == (0, "")
            self._grants[role, form] = ran.stdout.splitlines()
        return self._grants[role, form]

    def grant(self, role: Role) -> None:
        """Run all commands that `onceward-worker rights` prints for a role."""
        for form, run in (("acl", self.run_acl), ("redis", self.run_redis), ("sql", self.run_sql)):
            for line in self.grants(role, form):
                run(line)

    def run_acl(self, line: str) -> None:
        """Do the same as `kafka-acls` with one command."""
        words = shlex.split(line)
        (option,) = KINDS.keys() & {*words}
        named = [words[at + 1] for at, word in enumerate(words) if word == "--operation"]
        self.secured.kafka.allow(
            words[words.index("--allow-principal") + 1].removeprefix("User:"),
            KINDS[option],
            words[words.index(option) + 1],
            *[OPERATIONS[one] for one in named],
            prefixed="prefixed" in words,
        )

    def run_redis(self, line: str) -> None:
        """Send one command that needs no quoting to Redis, as its administrator."""
        _, _, user, *rules = line.split()
        self.secured.redis.set_user(user, *rules)

    def run_sql(self, statement: str) -> None:
        """Run a statement on the database, as superuser."""
        self.secured.postgres.run(statement, database=self.database)

    def take_all_away(self, role: Role) -> None:
        """Take all rights from the user of a role."""
        with suppress(StackError):  # it had none
            self.secured.kafka.take_away(role)
        self.secured.redis.set_user(role, "reset")
        self.secured.redis.set_password(role, password_of(role))
        self.run_sql(f'DROP OWNED BY "{role}"')

    def denied(self) -> list[tuple[str, str]]:
        """Return the user and the thing of each refusal in Redis since the last question."""
        log = self.secured.redis.admin.acl_log()
        self.secured.redis.admin.acl_log_reset()
        return [(str(one["username"]), str(one["object"])) for one in log]

    # programs --------------------------------------------------------------------------------

    def command(self, module: str, *arguments: str, role: Role) -> subprocess.CompletedProcess[str]:
        """Run a command of a role to its end, as `consumer` or `producer_client`."""
        argv = (sys.executable, "-m", module, *arguments, "--config", str(self.config(role)))
        environ = environment(**self.variables())
        return preloaded.run(argv, environ=environ, timeout_s=COMMAND_LIMIT_S)

    def worker(self, **changes: Mapping[str, Any]) -> RunningWorker:
        """Start a worker and wait for nothing."""
        log = self.folder / f"worker-{uuid.uuid4().hex}.log"
        config = self.config(Role.WORKER, **changes)
        one = RunningWorker(config, log=log, settings=self.variables())
        self.programs.append(one)
        return one

    def start(
        self, role: Role, module: str, *words: str, **changes: Mapping[str, Any]
    ) -> StartedProgram:
        """Start the service of a role and wait for nothing."""
        argv: Sequence[str] = (sys.executable, "-m", module, *words)
        one = StartedProgram(
            (*argv, "--config", str(self.config(role, **changes))),
            log=self.folder / f"{role}-{uuid.uuid4().hex}.log",
            environ=environment(**self.variables()),
        )
        self.programs.append(one)
        return one


@contextmanager
def rights_stage(secured: Secured, folder: Path) -> Iterator[RightsStage]:
    """Yield a stage; its programs and its database end with the block, and all rights with it."""
    with secured.postgres.database(f"rights_{uuid.uuid4().hex}") as database:
        stage = RightsStage(secured, database, folder)
        try:
            yield stage
        finally:
            stage.close()
