"""Shared by the commands of all rooms: options, exit codes, and errors in one sentence."""

from __future__ import annotations

import errno
import getpass
import json
import os
import select
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from feedback import logs
from feedback.console.printable import printable
from feedback.errors import ExitCode, OncewardError, SettingsError, more
from feedback.settings.settings import Settings, load
from feedback.statuses import Status

CONFIG_VARIABLE = "ONCEWARD_CONFIG"
LEVEL_VARIABLE = "ONCEWARD_LOG_LEVEL"
DEFAULT_FILE = "onceward.toml"
# The needs of a command that reads a group's journal, and of one that asks Redis and Kafka.
JOURNALED = ("kafka.group", "journal.url")
OF_A_GROUP = ("kafka.group",)

# Faults of files that a person mends: rights, a file system that is read-only or full.
_NOT_WRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT})

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


class _OutputClosed(Exception):
    """Nobody reads the output any more."""


@contextmanager
def _closed_output() -> Iterator[None]:
    """Say so in our own words: click and rich would end with 1, a bad answer.

    Raises:
        _OutputClosed: nobody reads what the block writes.
    """
    try:
        yield
    except BrokenPipeError as error:
        if not _nobody_reads():
            raise  # it was another pipe
        raise _OutputClosed from error
    except SystemExit as error:
        # By rich, which has put an empty device in the place of the output.
        if isinstance(error.__context__, BrokenPipeError):
            raise _OutputClosed from error
        raise


def _nobody_reads() -> bool:
    """Return whether the other end of the output, or of that for errors, is closed."""
    ends = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # that of a test has no descriptor
            ends.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in ends.poll(0))


class _Ending(click.Command):
    """A command that ends with the codes of docs: Exit codes."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command and exit; a fault of ours shows its stack and exits with 4."""
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except click.ClickException as error:
            code = ExitCode.USAGE
            _say(error.show)
            _say(more(code.entry))
        except click.Abort:
            code = ExitCode.CUT
            _say(f"interrupted\n{more(code.entry)}")
        except OncewardError as error:
            code = error.exit_code
            # Only our own lists of faults have several lines.
            said = printable(str(error), also="\n")
            _say(f"error: {said}\n{more(error.entry)}")
        except _OutputClosed:
            _discard(sys.stdout)
            code = ExitCode.CUT
        except Exception as error:
            code = _failed(error)
        sys.exit(int(code or ExitCode.FINE))

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Parse the arguments; `--help` writes already."""
        with _closed_output():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _closed_output():
            return super().invoke(ctx)

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write where each exit code is explained."""
        formatter.write_paragraph()
        formatter.write_text(f"Exit codes are 0 to 5; {more(ExitCode.NOT_AVAILABLE.entry)}")


class Program(_Ending):
    """A program of one command."""


class Group(_Ending, click.Group):
    """A group of commands."""


def _say(said: str | Callable[[], None]) -> None:
    """Tell the user, if anybody still reads that: the exit code says it in any case."""
    try:
        if callable(said):
            said()
        else:
            click.echo(said, err=True)
    except BrokenPipeError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Let the rest of a stream go nowhere: else Python fails on it at its end, with 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _failed(error: Exception) -> ExitCode:
    """Print the failure, as the last line of defence, and return the exit code."""
    if isinstance(error, OSError) and error.filename and error.errno in _NOT_WRITABLE:
        code = ExitCode.NOT_AVAILABLE
        said = printable(f"error: {error.filename}: {error.strerror}")
        _say(f"{said}\n{more(code.entry)}")
        return code
    # A stack for us, a number for the caller.
    logs.configure()
    code = ExitCode.INTERNAL
    logs.EventLog("onceward.command").exception("command.failed", more=more(code.entry))
    return code


def config_option(command: CommandT) -> CommandT:
    """Add `--config FILE` to a command."""
    return click.option(
        "--config",
        type=click.Path(dir_okay=False),
        help="TOML settings, else $ONCEWARD_CONFIG, else ./onceward.toml. Each setting can also "
        "come from ONCEWARD_<SECTION>__<NAME>.",
    )(command)


def json_option(command: CommandT) -> CommandT:
    """Add `--json` to a command that prints data."""
    return click.option("--json", "as_json", is_flag=True, help="Print data as JSON lines.")(
        command
    )


def log_level_option(command: CommandT) -> CommandT:
    """Add `--log-level LEVEL`, in either case, to a command that works for long.

    A unit of systemd sets it by `ONCEWARD_LOG_LEVEL`, and the option counts more.
    """
    return click.option(
        "--log-level",
        type=click.Choice(logs.LEVELS, case_sensitive=False),
        envvar=LEVEL_VARIABLE,
        show_envvar=True,
        default="INFO",
        show_default=True,
        help="DEBUG shows each verdict.",
    )(command)


def settings_of(config: str | None, *, needs: Sequence[str] = JOURNALED) -> Settings:
    """Return the settings a command works with.

    Args:
        config: of `--config`; without it `ONCEWARD_CONFIG`, else `./onceward.toml` where it is.
        needs: the settings that must be named where there is no file, as `section.name`.

    Raises:
        SettingsError: the settings are wrong; the message names every fault. Or there is no file
            and the environment does not name all that the command needs: an answer about a group
            and a database that nobody meant would be a false all-clear.
    """
    file = file_of(config)
    settings = load(file)
    if file is None:
        missing = [one for one in needs if not _is_named(settings, one)]
        if missing:
            names = " and ".join(f"ONCEWARD_{one.replace('.', '__').upper()}" for one in missing)
            raise SettingsError(
                f"no settings: give --config FILE, or set {CONFIG_VARIABLE}, or run this where an "
                f"{DEFAULT_FILE} is, or set {names}"
            )
    return settings


def file_of(config: str | None) -> str | None:
    """Return the settings file of a command: `--config`, `ONCEWARD_CONFIG`, `./onceward.toml`."""
    there = DEFAULT_FILE if Path(DEFAULT_FILE).exists() else None
    return config or os.environ.get(CONFIG_VARIABLE) or there


def _is_named(settings: Settings, place: str) -> bool:
    section, name = place.split(".")
    return name in getattr(settings, section).model_fields_set


def print_status(status: Status, *, as_json: bool) -> None:
    """Print one status: a JSON line, or a line for a person."""
    if as_json:
        fields = {name: value for name, value in asdict(status).items() if value is not None}
        fields["status"] = str(fields.pop("state"))
        click.echo(json.dumps(fields))
        return
    words = [status.request_id, str(status.state)]
    if status.code:
        words.append(status.code)
    if status.message:
        words.append(status.message)
    if status.result is not None:
        words.append(json.dumps(status.result))
    click.echo(printable("  ".join(words)))


def user_name() -> str:
    """Return the name of the user of this process, for records of people's actions."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        return f"uid-{os.getuid()}"
