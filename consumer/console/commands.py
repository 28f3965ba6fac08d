"""`onceward-console`. The web libraries are imported where they are used: they are an extra."""

from __future__ import annotations

import click

from feedback import __version__, logs
from feedback.console.access import require_access
from feedback.console.commands import Program, config_option, log_level_option, settings_of
from feedback.errors import NotAvailable, SettingsError
from feedback.web.hosts import is_loopback, listen

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
@log_level_option
def cli(config: str | None, host: str, port: int, log_level: str) -> int:
    """Show workers, requests, doubts, dead letters and audits in a browser, until Ctrl-C.

    It changes nothing, and asks nobody who they are: so it listens on this host alone. From
    elsewhere come through a tunnel (ssh -L).

    \b
    Example:
      onceward-console --config payments.toml
    """
    try:
        from consumer.console.server import serve
    except ModuleNotFoundError as error:
        needed = "pip install 'onceward[console]'"
        raise NotAvailable(f"the console needs {error.name}: {needed}") from error
    if not is_loopback(host):
        raise SettingsError(
            f"--host {host}: the console asks nobody who they are, so it listens on this host "
            "alone; take 127.0.0.1 and come through a tunnel (ssh -L)"
        )
    settings = settings_of(config)
    require_access(settings)
    logs.configure(level=log_level)
    return int(serve(settings, listen(host, port, setting="--port")))
