"""Commands whose output nobody reads any more."""

from __future__ import annotations

import subprocess
import sys

import pytest

from feedback.errors import ExitCode

LIMIT_S = 60
RICH = """
import click
from rich.console import Console
from feedback.console.commands import Program
@click.command(cls=Program)
def cli():
    Console().print("a table")
cli()
"""


def ended(*argv: str, hears_errors: bool = True) -> tuple[int, bytes]:
    """Return the exit code of a command without a reader, and the errors that it told."""
    process = subprocess.Popen(
        [sys.executable, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    if not hears_errors:
        process.stderr.close()
        return process.wait(LIMIT_S), b""
    with process.stderr as errors:
        return process.wait(LIMIT_S), errors.read()


@pytest.mark.parametrize(
    "argv",
    [("-m", "onceward", "help"), ("-m", "onceward", "--help"), ("-c", RICH)],
    ids=["a page", "the help", "rich"],
)
def test_a_command_that_nobody_reads_is_cut_and_says_nothing(argv: tuple[str, ...]) -> None:
    assert ended(*argv) == (ExitCode.CUT, b"")


def test_an_error_that_nobody_reads_keeps_its_code() -> None:
    assert ended("-m", "onceward", "--nope", hears_errors=False) == (ExitCode.USAGE, b"")


def test_another_pipe_that_breaks_is_a_fault_of_ours() -> None:
    broken = RICH.replace('Console().print("a table")', "raise BrokenPipeError")
    process = subprocess.run(
        [sys.executable, "-c", broken], capture_output=True, timeout=LIMIT_S, check=False
    )
    assert process.returncode == ExitCode.INTERNAL
    assert b"BrokenPipeError" in process.stderr
