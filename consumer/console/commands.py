"""`onceward-console`. The web libraries are imported where they are used: they are an extra."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from consumer.console.heap import share_heap
from feedback import __version__, logs
from feedback.console.access import require_access
from feedback.console.commands import (
    Program,
    config_option,
    file_of,
    log_level_option,
    settings_of,
)
from feedback.console.printable import printable
from feedback.errors import ExitCode, NotAvailable
from feedback.web.hosts import listen

PORT = 8090


@click.command(cls=Program)
@click.version_option(__version__)
@config_option
@click.option("--host", default="127.0.0.1", show_default=True, help="An address of this host.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="0 takes any that is free.",
)
@click.option("--user", "name", help="Print this person's line for [console] users_file; end.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(["viewer", "operator", "payload_reader"]),
    help="With --user: what the person may do; repeatable. Each may look.",
)
@click.option(
    "--no-password", is_flag=True, help="With --user: a proxy or a provider names the person."
)
@log_level_option
def cli(
    config: str | None,
    host: str,
    port: int,
    name: str | None,
    roles: tuple[str, ...],
    no_password: bool,
    log_level: str,
) -> int:
    """Show workers, requests, doubts, dead letters and audits in a browser, until Ctrl-C.

    Without [console] users_file it changes nothing, and knows no persons: so it listens on this
    host alone. From elsewhere come through a tunnel (ssh -L).

    \b
    Examples:
      onceward-console --config payments.toml
      onceward-console --user ann --role operator >> people
    """
    try:
        from consumer.console.entrance import require_safe_address
        from consumer.console.people import ConsoleRole, person_line
        from consumer.console.server import serve
    except ModuleNotFoundError as error:
        needed = "pip install 'onceward[console]'"
        raise NotAvailable(f"the console needs {error.name}: {needed}") from error
    if name is not None:
        password = None if no_password else _password_for(name)
        click.echo(person_line(name, map(ConsoleRole, roles), password))
        return int(ExitCode.FINE)
    settings = settings_of(config)
    require_safe_address(settings.console, host)
    share_heap()
    require_access(settings)
    logs.configure(level=log_level)
    return int(serve(settings, listen(host, port, setting="--port"), file=_absolute(config)))


def _absolute(config: str | None) -> str | None:
    """Return the file of the settings, as another folder's shell finds it; None for none."""
    found = file_of(config)
    return None if found is None else str(Path(found).absolute())


def _password_for(name: str) -> str:
    """Return the password that a person types twice, or the line that a program gives."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    said = f"password of {printable(name)}"
    return str(click.prompt(said, hide_input=True, confirmation_prompt=True, err=True))
