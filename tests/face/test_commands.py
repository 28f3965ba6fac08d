"""`onceward`: one name for the commands of all rooms, each loaded when it is asked for."""

import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import consumer.console.commands
import consumer.dlq.commands
import consumer.ops.commands
import producer_client.commands.commands
import spark_audit.run.commands
from feedback.errors import ExitCode
from onceward.commands import OWN, ROOMS, cli
from tests.face.conftest import ROOT

GROUPS = {
    "audit": spark_audit.run.commands.cli,
    "client": producer_client.commands.commands.cli,
    "console": consumer.console.commands.cli,
    "dlq": consumer.dlq.commands.cli,
    "worker": consumer.ops.commands.cli,
}
LIMIT_S = 60.0


def test_each_room_has_its_commands_below_the_one_name() -> None:
    context = click.Context(cli)
    *own, _, _, _, _, _ = names = cli.list_commands(context)
    assert own == ["init", "dev", "help"]
    rooms = names[len(own) :]
    assert {name: cli.get_command(context, name) for name in rooms} == GROUPS


def test_help_lists_the_rooms_and_loads_none() -> None:
    program = (
        "import sys; from onceward.__main__ import main; sys.argv[1:] = ['--help']\n"
        "try: main()\n"
        "finally: print(*sys.modules)"
    )
    done = subprocess.run(
        (sys.executable, "-c", program), cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == ExitCode.FINE, done.stderr
    for name, (_, line) in {**OWN, **ROOMS}.items():
        assert f"  {name} " in done.stdout
        assert line in done.stdout
    assert not {"kafka", "sqlalchemy", "producer_client", "spark_audit"} & {*done.stdout.split()}


def test_it_runs_as_a_module_and_ends_with_the_code_of_its_command() -> None:
    argv = (sys.executable, "-m", "onceward", "worker", "run", "--config", "nowhere.toml")
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == (
        "error: settings file nowhere.toml: No such file or directory\n"
        "more: onceward help error-settingserror\n"
    )


@pytest.mark.parametrize("words", [["nothing"], ["dlq", "nothing"]])
def test_a_command_that_is_not_there_is_a_fault_of_usage(words: list[str]) -> None:
    done = CliRunner().invoke(cli, words, prog_name="onceward")
    assert done.exit_code == ExitCode.USAGE
    assert "No such command 'nothing'" in done.stderr
