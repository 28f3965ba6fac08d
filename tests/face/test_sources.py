"""Each command that answers from a journal says on standard error which one, and whose group."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka.admin import KafkaAdminClient, NewTopic

from onceward.commands import cli
from producer_client import outbox
from tests.face.test_exit_codes import ALL, COMMANDS
from tests.face.test_exit_codes import run as run
from tests.kit.databases import migrated
from tests.kit.settings import write_settings
from tests.stack import Servers

# Of each command, arguments with which it answers about a group that has nothing.
ANSWERS = {
    "client outbox list": "",
    "dlq discard": "a --because x",
    "dlq discard --undo": "a --because x",
    "dlq discard --dry-run": "--all --because x",
    "dlq export": "-",
    "dlq export --state in_doubt": "-",
    "dlq list": "",
    "dlq list --state in_doubt": "",
    "dlq redrive": "a",
    "dlq redrive --all": "",
    "dlq redrive --all --dry-run": "",
    "dlq redrive --cancel a": "",
    "dlq redrives": "",
    "dlq resolve": "a --failed --because x",
    "dlq show": "a",
    "worker pause": "{topic} --because x",
    "worker paused": "",
    "worker resume": "payments",
    "worker workers": "",
}
# They work, and answer nothing; or ask no journal.
SILENT = {
    *("client outbox migrate", "client outbox retry", "client relay", "client resend"),
    *("client keys create", "client keys list", "client keys revoke", "client serve"),
    *("client send", "client status", "client wait", "console", "dev", "dlq expire"),
    *("help", "init"),
    *("worker check", "worker migrate", "worker prune", "worker rights"),
    *("worker run", "worker topics"),
}


def _command(name: str) -> str:
    """Return the command of a row, without its options."""
    return name.partition(" --")[0]


@pytest.fixture
def config(servers: Servers, group: str, tmp_path: Path) -> Path:
    """Return settings of a group that has a topic of its name, and nothing else."""
    url = f"sqlite:///{tmp_path}/journal.db"
    migrated(url)
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        admin.create_topics([NewTopic(group, 1, 1)])
        admin.wait_for_topics([group])
    outbox.migrate(url.replace("journal", "outbox"))
    sections = {
        "kafka": {"bootstrap_servers": servers.kafka, "group": group},
        "redis": {"url": servers.redis},
        "journal": {"url": url},
        "outbox": {"url": url.replace("journal", "outbox")},
    }
    return write_settings(tmp_path, sections)


def test_each_command_is_in_one_of_the_tables() -> None:
    known = {_command(name) for name in ANSWERS} | SILENT
    assert sorted(one for one in COMMANDS if not one.startswith("audit")) == sorted(known)


@pytest.mark.parametrize("name", ANSWERS)
def test_it_names_group_and_database_and_not_in_json(
    config: Path, run: CliRunner, group: str, tmp_path: Path, name: str
) -> None:
    given = ANSWERS[name].format(topic=group)
    words = [*name.split(), *given.split(), "--config", str(config)]
    done = run.invoke(cli, words, prog_name="onceward")
    assert done.exit_code in (0, 1), done.output
    section = "outbox" if name.startswith("client outbox") else "journal"
    source = f"group {group}, {section} sqlite:///{tmp_path}/{section}.db"
    assert done.stderr.splitlines().count(source) == 1
    if any(one.name == "as_json" for one in ALL[_command(name)].params):
        done = run.invoke(cli, [*words, "--json"], prog_name="onceward")
        assert done.exit_code in (0, 1) and source not in done.stderr
