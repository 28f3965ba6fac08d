"""What contradicts itself on a command line is refused before anything is read, in every room."""

import shlex

import pytest
from click.testing import CliRunner

from feedback.errors import ExitCode
from onceward.commands import cli

CONTRADICTIONS = """\
dlq redrive --resume X --cancel Y
dlq redrive --cancel X --rate 5
dlq redrive --resume X a
dlq redrive --resume X --dry-run
dlq redrive --cancel X --set amount=5
dlq redrive --resume X --value 1
dlq redrive a --set amount=5 --value 1
dlq redrive a --value 1 --value-file /dev/null
dlq redrive a b --value 1
dlq redrive --reason BANK_BUSY --value 1
dlq redrive --all --value-file /dev/null
dlq redrive --resume X --reason BANK_BUSY
dlq redrive --resume X --all
dlq redrive --resume X --unknown
dlq redrive --resume X --deadline-s 60
dlq redrive --cancel X --max-redrives 3
dlq redrive --cancel X --yes
dlq redrive --cancel X --dlq connect-dlq
dlq redrive --all --dry-run --rate 5
dlq redrive --all --reason BANK_BUSY
dlq redrive --all a
dlq redrive --all --again
dlq redrive --all --no-journal
dlq redrive --dlq connect-dlq --no-journal --because x
dlq discard --all --topic payments --because x
dlq discard a --undo --dry-run --because x
dlq discard a --undo --topic payments --because x
dlq discard --all --undo --because x
dlq list --state open --all
dlq list --state open --no-journal
dlq export - --state open --all
dlq show a --no-value --whole-value
dlq show a --topic payments --dlq connect-dlq
dlq resolve a --succeeded --failed --because x
dlq resolve a --succeeded --code X --because x
dlq resolve a --failed --result 1 --because x
worker topics --partitions 3
client send 1 --file /dev/null
client send 1 --rate 5
client send --file /dev/null --id a
client outbox list --sent --waiting
client outbox list --parked --sent
client outbox retry a --all
"""


@pytest.mark.parametrize("line", CONTRADICTIONS.splitlines())
def test_what_contradicts_itself_is_an_error_of_usage(line: str) -> None:
    done = CliRunner().invoke(cli, shlex.split(line), prog_name="onceward")
    assert done.exit_code == ExitCode.USAGE, done.output
    assert "Error: " in done.output and "no settings" not in done.output


@pytest.mark.parametrize(
    "line",
    [
        "dlq redrive --resume X --rate 5 --because x --by zoe --json --yes",
        "dlq redrive --all --rate 5 --yes",
        "dlq redrive --reason BANK_BUSY --dlq connect-dlq --dry-run",
        "dlq discard a --undo --because x --yes",
        "dlq list --all --reason BANK_BUSY",
        "client outbox list --sent",
    ],
)
def test_what_goes_together_is_read(line: str) -> None:
    words = [*shlex.split(line), "--config", "nowhere.toml"]
    done = CliRunner().invoke(cli, words, prog_name="onceward")
    assert "settings file nowhere.toml" in done.output
