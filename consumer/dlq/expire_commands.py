"""`onceward-dlq expire`: the registry of unfinished requests, as a service or once."""

from __future__ import annotations

from contextlib import closing

import click

from consumer.dlq.options import stopping_at_signals
from consumer.dlq.redrive.process import new_owner
from feedback import logs
from feedback.console.commands import config_option, log_level_option, settings_of
from feedback.errors import ExitCode
from feedback.rights.needed import Role
from feedback.systemd import notify, unit


@click.command()
@config_option
@click.option("--topic", "topics", multiple=True, help="Only requests of this topic; repeatable.")
@click.option("--once", is_flag=True, help="End when all is read and due requests are moved.")
@log_level_option
def expire(config: str | None, topics: tuple[str, ...], once: bool, log_level: str) -> int:
    """Move requests that waited too long to the dead letters, until SIGTERM or Ctrl-C.

    It reads the wait topics of handlers with delivery="at_least_once". A request that is past its
    expiry and has no living worker becomes a dead letter (EXPIRED), once, however many of these
    processes run. Letters without a journal row are sent back by `onceward-dlq redrive --unknown`.

    \b
    Examples:
      onceward-worker migrate --config payments.toml
      onceward-dlq expire --config payments.toml
      onceward-dlq expire --config payments.toml --topic payments --once
    """
    # Imported only here: the other commands do not need them.
    from consumer.features.waits.registry.registry import Registry
    from consumer.features.waits.registry.rights import registry_rights
    from consumer.journal import Journal
    from feedback.console.access import require_access
    from feedback.rights.looking import require_rights

    settings = settings_of(config)
    logs.configure(level=log_level)
    url = settings.registry.url or settings.journal.url
    with closing(Journal(url, group=settings.kafka.group, worker_id="")) as database:
        require_access(settings, more=database.ping)
    require_rights(Role.REGISTRY, settings, registry_rights(settings, topics))
    # systemd's variables are removed before a child process may inherit them.
    unit()
    with stopping_at_signals() as stopping:
        registry = Registry(
            settings, name=new_owner(), topics=topics, stopping=stopping, on_read=_alive
        )
        try:
            notify("READY=1")
            if once:
                registry.once()
            else:
                registry.serve()
        finally:
            notify("STOPPING=1")
            registry.close()
    return int(ExitCode.BAD_ANSWER if registry.tally.refused else ExitCode.FINE)


COMMANDS = (expire,)


def _alive() -> None:
    notify("WATCHDOG=1")
