"""`onceward-dlq redrives` lists redrives, and `redrive --cancel` stops one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing

import click

from consumer.dlq.redrive.endings import redrive_json, redrive_line
from consumer.dlq.redrive.session import redrives_of
from consumer.dlq.unfinished import unfinished_json, unfinished_lines, unfinished_of
from consumer.journal.unsent import UnfinishedRedrive
from feedback.console.commands import config_option, json_option, settings_of
from feedback.console.printable import printable
from feedback.console.source import say_source
from feedback.errors import ExitCode
from feedback.settings.settings import Settings


@click.command()
@config_option
@json_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
def redrives(config: str | None, as_json: bool, limit: int) -> None:
    """List redrives, the latest first.

    One that was cut off is named with the requests that it may not have sent, and with the command
    that goes on with it.

    \b
    Example:
      onceward-dlq redrives --config payments.toml
    """
    settings = settings_of(config)
    with closing(redrives_of(settings)) as rows:
        rows.journal_id()
        found = rows.latest(limit)
    unfinished = unfinished_by_id(settings)
    say_source(settings, as_json=as_json)
    if not found and not as_json:
        click.echo("no redrive was begun")
    for one in found:
        left = unfinished.get(one.redrive_id)
        unsent = {"unsent": 0 if left is None else len(left.requests)}
        click.echo(json.dumps(redrive_json(one) | unsent) if as_json else redrive_line(one))
    for line in () if as_json else unfinished_lines([*unfinished.values()], config=config):
        click.echo(line)


def cancel(
    settings: Settings,
    redrive_id: str,
    *,
    by: str,
    because: str | None,
    as_json: bool,
    config: str | None,
) -> int:
    """Stop a redrive, print what it leaves unsent, and return the command's exit code."""
    with closing(redrives_of(settings)) as rows:
        rows.journal_id()
        is_cancelled = rows.cancel(redrive_id, by=by, reason=because)
        stands = rows.find(redrive_id)
    left = unfinished_by_id(settings).get(redrive_id)
    state = None if stands is None else stands.state
    say_source(settings, as_json=as_json)
    if as_json:
        words = {"redrive_id": redrive_id, "is_cancelled": is_cancelled, "state": state}
        unsent = None if left is None else unfinished_json(left)
        click.echo(json.dumps(words | {"unfinished": unsent}))
    elif is_cancelled:
        click.echo(f"redrive {redrive_id} is cancelled: it stops before its next batch")
    else:
        said = "there is no such redrive" if state is None else f"it is {state} already"
        click.echo(f"redrive {printable(redrive_id)}: {said}", err=True)
    if left is not None and not as_json:
        for line in unfinished_lines([left], config=config):
            click.echo(line)
    return int(ExitCode.FINE if is_cancelled else ExitCode.BAD_ANSWER)


def unfinished_by_id(settings: Settings) -> Mapping[str, UnfinishedRedrive]:
    """Return the group's unfinished redrives by their ids."""
    return {one.redrive_id: one for one in unfinished_of(settings)}
