"""`onceward-client serve`. The front door is imported where it is used: it is an extra."""

from __future__ import annotations

import click

from feedback import logs
from feedback.console.access import require_access
from feedback.console.commands import OF_A_GROUP, config_option, log_level_option, settings_of
from feedback.errors import ExitCode, NotAvailable, SettingsError
from feedback.rights.needed import Role
from feedback.settings.settings import Settings
from feedback.web.hosts import listen


@click.command()
@config_option
@log_level_option
@click.option("--check", is_flag=True, help="Look at the files and models of [http], and end.")
def serve(config: str | None, log_level: str, *, check: bool) -> int:
    """Take requests over HTTP and show their statuses, until SIGTERM or Ctrl-C.

    Several processes, behind a balancer, share the work.

    \b
    Examples:
      onceward-client serve --config payments.toml
      ONCEWARD_HTTP__TOPICS=payments ONCEWARD_HTTP__PORT=9000 onceward-client serve
      onceward-client serve --check --config payments.toml
    """
    try:
        from producer_client.http import serve as front_door
        from producer_client.http.authentication import authentication_of
    except ModuleNotFoundError as error:
        needed = "pip install 'onceward[http]'"
        raise NotAvailable(f"the front door needs {error.name}: {needed}") from error
    settings = settings_of(config, needs=OF_A_GROUP)
    if not settings.http.topics:
        raise SettingsError('no topic is offered: set [http] topics = ["payments"]')
    if check:
        return _checked(settings)
    authentication = authentication_of(settings.http)
    require_access(settings)
    _require_rights(settings)
    listening = listen(settings.http.host, settings.http.port, setting="[http] port")
    logs.configure(level=log_level)
    return int(front_door.serve(settings, authentication, listening))


def _checked(settings: Settings) -> int:
    from producer_client.http.file_checks import findings

    worst = ExitCode.FINE
    for what, error in findings(settings):
        click.echo(f"{'WRONG  ' if error else 'ok     '}{what}" + (f": {error}" if error else ""))
        worst = max(worst, error.exit_code if error else ExitCode.FINE)
    return int(worst)


def _require_rights(settings: Settings) -> None:
    """Return when the user has the rights of a client; those to an outbox where one is used."""
    # SQLAlchemy comes with it, for which a send would wait as well.
    from feedback.rights.looking import require_sending_rights

    no_outbox = settings.outbox.model_copy(update={"url": ""})
    used = settings if settings.http.outbox else settings.model_copy(update={"outbox": no_outbox})
    require_sending_rights(Role.CLIENT, used)
