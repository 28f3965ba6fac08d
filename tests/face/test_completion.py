"""Shells complete the commands of each script."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

import consumer.dlq.commands
import consumer.ops.commands
import producer_client.commands.commands
import spark_audit.run.command_line
from feedback.errors import ExitCode
from onceward.commands import cli

SCRIPTS = [
    ("onceward", cli, "onceward d", {"dev", "dlq"}),
    ("onceward", cli, "onceward dlq redr", {"redrive", "redrives"}),
    ("onceward", cli, "onceward worker run --conf", {"--config"}),
    ("onceward-worker", consumer.ops.commands.cli, "onceward-worker pau", {"pause", "paused"}),
    (
        "onceward-client",
        producer_client.commands.commands.cli,
        "onceward-client s",
        {"send", "status"},
    ),
    ("onceward-dlq", consumer.dlq.commands.cli, "onceward-dlq dis", {"discard"}),
    ("onceward-audit", spark_audit.run.command_line.cli, "onceward-audit rep", {"report"}),
]


def _variable(script: str) -> str:
    return f"_{script.replace('-', '_').upper()}_COMPLETE"


@pytest.mark.parametrize(("script", "command", "words", "expected"), SCRIPTS)
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_words_that_a_script_takes_are_offered(
    shell: str, script: str, command: click.Command, words: str, expected: set[str]
) -> None:
    environ = {
        _variable(script): f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = CliRunner().invoke(command, env=environ, prog_name=script)
    assert done.exit_code == ExitCode.FINE
    lines = done.stdout.splitlines()
    # bash is told kind and word in a line; zsh kind, word and help in three.
    offered = {line.partition(",")[2] for line in lines} if shell == "bash" else {*lines[1::3]}
    assert offered >= expected
    assert all(one.startswith(words.split()[-1]) for one in offered)


@pytest.mark.parametrize("script", ["onceward", "onceward-audit"])
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_script_writes_what_a_shell_evaluates(shell: str, script: str) -> None:
    command = {one: found for one, found, *_ in SCRIPTS}[script]
    environ = {_variable(script): f"{shell}_source"}
    done = CliRunner().invoke(command, env=environ, prog_name=script)
    assert f"{_variable(script)}={shell}_complete" in done.stdout
