"""`onceward-worker workers`: prints the workers of the group."""

from __future__ import annotations

import json

import click

from consumer.dlq.list_page import console_for
from consumer.ops.workers.page import row_json, workers_page
from consumer.ops.workers.workers_reading import MOST_WORKERS, workers_of
from feedback.console.commands import config_option, json_option, settings_of
from feedback.console.source import say_source


@click.command()
@json_option
@config_option
def workers(as_json: bool, config: str | None) -> None:
    """List the workers of the group: whether each lives, what it does now, what the dead have left.

    A worker lives by its lease in the journal and its heartbeat in Redis. One that stops cleanly
    is not listed any more. Claims of a dead one go on by a peer's sweep, or end in doubt.

    \b
    Example:
      onceward-worker workers --config payments.toml
      onceward-worker workers --json --config payments.toml
    """
    settings = settings_of(config)
    found = workers_of(settings)
    if found.away is not None:
        click.echo(f"heartbeats are not known, and leases alone are shown: {found.away}", err=True)
    say_source(settings, as_json=as_json)
    if as_json:
        for one in found.rows:
            click.echo(json.dumps(row_json(one)))
        return
    if not found.rows:
        click.echo(f"group {settings.kafka.group} has no worker, and no dead one either")
        return
    console = console_for()
    console.print(workers_page(found.rows, width=console.width))
    if found.is_cut:
        click.echo(f"only the {MOST_WORKERS} whose leases end last are listed")
