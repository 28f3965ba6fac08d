"""Each command in bad company: the table of docs/reference/exit-codes.md, in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from feedback.errors import ExitCode
from onceward.commands import cli
from tests.kit.settings import Sections, write_settings
from tests.stack import Servers

NO_SERVER = "postgresql+psycopg://me@127.0.0.1:1/none"
AWAY: Sections = {
    "kafka": {"bootstrap_servers": "127.0.0.1:1", "group": "g"},
    "redis": {"url": "redis://127.0.0.1:1/0"},
    "journal": {"url": NO_SERVER, "timeout_s": 1.0},
    "outbox": {"url": NO_SERVER, "timeout_s": 1.0},
    "worker": {"handlers": ["tests.face.charging"]},
    "client": {"send_timeout_s": 1.0},
    "audit": {"topics": ["payments"]},
}
# Of each command, arguments with which it gets as far as its settings.
ARGUMENTS = {
    "audit package": "",
    "audit prune": "",
    "audit report": "",
    "audit run": "",
    "client keys create": "shop",
    "client keys list": "",
    "client keys revoke": "7c3e9d3a",
    "client outbox list": "",
    "client outbox migrate": "",
    "client outbox retry": "--all",
    "client relay": "",
    "client resend": "--once",
    "client send": "{} --topic payments",
    "client serve": "",
    "client status": "a",
    "client wait": "a --timeout 1",
    "console": "--port 0",
    "dev": "",
    "dlq discard": "a --because x --yes",
    "dlq expire": "--once",
    "dlq export": "letters.jsonl",
    "dlq list": "",
    "dlq redrive": "a --yes",
    "dlq redrives": "",
    "dlq resolve": "a --succeeded --because x",
    "dlq show": "a",
    "help": "",
    "init": "",
    "worker check": "",
    "worker migrate": "",
    "worker pause": "payments --because x",
    "worker paused": "",
    "worker prune": "",
    "worker resume": "payments",
    "worker rights": "",
    "worker run": "",
    "worker topics": "",
    "worker workers": "",
}
WITHOUT_SETTINGS = {"audit package", "help", "init"}
# They read files alone.
WITHOUT_SERVERS = {
    *WITHOUT_SETTINGS,
    *("audit prune", "audit report", "worker rights"),
    *("client keys create", "client keys list", "client keys revoke"),
}
# They serve all the same, and say there who is away.
ANSWERING = {"client serve", "console"}
# Kafka's own limit, several times.
SLOW = {"audit run", "dlq export", "dlq list", "worker check"}


def _walk(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _walk(below, f"{path} {name}".strip())
    yield path, command


ALL = dict(_walk(cli))
GROUPS = [name for name, one in ALL.items() if isinstance(one, click.Group)]
COMMANDS = [name for name, one in ALL.items() if not isinstance(one, click.Group)]
WITH_SETTINGS = [name for name in COMMANDS if name not in WITHOUT_SETTINGS]
REQUIRING = [name for name in COMMANDS if any(one.required for one in ALL[name].params)]
ASKING = [
    pytest.param(name, marks=pytest.mark.long) if name in SLOW else name
    for name in COMMANDS
    if name not in WITHOUT_SERVERS | ANSWERING
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    """Work in an empty folder, without settings in the environment."""
    monkeypatch.chdir(tmp_path)
    for name in [*os.environ]:
        if name.startswith("ONCEWARD_"):
            monkeypatch.delenv(name)
    return CliRunner()


def _ends(run: CliRunner, name: str, arguments: str = "") -> Result:
    return run.invoke(cli, [*name.split(), *arguments.split()], prog_name="onceward")


def test_each_command_has_its_row() -> None:
    assert sorted(COMMANDS) == sorted(ARGUMENTS)


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_without_a_command_is_a_fault_of_usage_and_knows_its_version(
    run: CliRunner, name: str
) -> None:
    assert _ends(run, name).exit_code == ExitCode.USAGE
    told = _ends(run, name, "--version")
    assert (told.exit_code, told.output.split()[-2:]) == (ExitCode.FINE, ["version", "0.1.0"])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_option_is_a_fault_of_usage(run: CliRunner, name: str) -> None:
    done = _ends(run, name, f"{ARGUMENTS[name]} --no-such-option")
    assert done.exit_code == ExitCode.USAGE
    assert "No such option" in done.stderr


@pytest.mark.parametrize("name", REQUIRING)
def test_no_arguments_where_some_are_needed_is_a_fault_of_usage(run: CliRunner, name: str) -> None:
    done = _ends(run, name)
    assert done.exit_code == ExitCode.USAGE
    assert "Missing " in done.stderr


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_no_settings_are_a_fault_of_usage(run: CliRunner, name: str) -> None:
    done = _ends(run, name, ARGUMENTS[name])
    assert done.exit_code == ExitCode.USAGE
    assert done.stderr.startswith("error: no ")


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_settings_that_are_wrong_are_a_fault_of_usage(
    run: CliRunner, name: str, tmp_path: Path
) -> None:
    config = write_settings(tmp_path, {"kafka": {"groop": "g"}})
    done = _ends(run, name, f"{ARGUMENTS[name]} --config {config}")
    assert done.exit_code == ExitCode.USAGE
    assert "[kafka] groop: there is no such setting" in done.stderr


@pytest.mark.parametrize("name", ASKING)
def test_servers_that_are_away_are_not_available(
    run: CliRunner, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `dev` would start servers.
    monkeypatch.setenv("PATH", "/nowhere")
    config = write_settings(tmp_path, AWAY)
    done = _ends(run, name, f"{ARGUMENTS[name]} --config {config}")
    assert done.exit_code == ExitCode.NOT_AVAILABLE, done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_an_interrupt_cuts_a_command(
    run: CliRunner, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    for module in ("feedback.console.commands", "onceward.dev.commands"):
        monkeypatch.setattr(f"{module}.load", interrupted)
    done = _ends(run, name, ARGUMENTS[name])
    assert done.exit_code == ExitCode.CUT
    assert done.stderr.split("\n")[-3:] == ["interrupted", "more: onceward help exit-code-5", ""]


def test_a_request_that_nobody_knows_is_a_bad_answer(
    run: CliRunner, tmp_path: Path, servers: Servers, group: str
) -> None:
    given = {"kafka": {"bootstrap_servers": servers.kafka, "group": group}}
    config = write_settings(tmp_path, given, {"redis": {"url": servers.redis}})
    done = _ends(run, "client status", f"nobody-knows --config {config}")
    assert done.exit_code == ExitCode.BAD_ANSWER
    assert "UNKNOWN" in done.stdout
