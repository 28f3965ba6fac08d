"""`onceward-dlq redrive` and `redrives`: send letters back to their topics."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import click

from consumer.dlq.acting_options import (
    by_option,
    given_with,
    require_some,
    require_yes,
    stopping_at_signals,
)
from consumer.dlq.options import Given, filter_options
from consumer.dlq.redrive_owner import new_owner
from consumer.dlq.redrive_plan import MAX_REDRIVES, RedrivePlan
from consumer.dlq.redrive_said import print_ending, redrive_json, redrive_line
from consumer.dlq.redrive_sessions import How, begin, letters_there, rehearse, resume
from consumer.dlq.setting import Setting
from consumer.journal.redrives import Redrives
from feedback.console.commands import config_option, json_option, settings_of
from feedback.console.printable import printable
from feedback.console.progress import progress_bar
from feedback.errors import ExitCode
from feedback.settings.settings import Settings


@click.command()
@config_option
@json_option
@filter_options
@click.argument("request_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All letters, where no filter is given.")
@click.option("--rate", type=click.FloatRange(min=0.1), help="Letters a second at most.")
@click.option(
    "--dry-run", is_flag=True, help="Count the letters that would be sent; change nothing."
)
@click.option(
    "--deadline-s",
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds in which a run must start. Default: [client] deadline_s.",
)
@click.option(
    "--max-redrives",
    type=click.IntRange(min=1),
    default=MAX_REDRIVES,
    show_default=True,
    help="Leave requests that were sent back so often: they go round in circles.",
)
@click.option(
    "--unknown",
    "takes_unknown",
    is_flag=True,
    help="Also letters without a journal row, as of other systems. Nothing says whether such a "
    "request has run.",
)
@click.option(
    "--set",
    "setting",
    metavar="PATH=VALUE",
    help="Replace a value of the JSON, by its path (card.number, /items/0/price). The letter "
    "becomes a new request that names the old one; the old one is discarded.",
)
@by_option
@click.option("--because", help="The reason; recorded.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--resume", "resumed", metavar="ID", help="Go on with a redrive that was cut off.")
@click.option("--cancel", "cancelled", metavar="ID", help="Stop a redrive, wherever it runs.")
def redrive(
    config: str | None,
    as_json: bool,
    given: Given,
    request_ids: tuple[str, ...],
    everything: bool,
    rate: float | None,
    dry_run: bool,
    deadline_s: float | None,
    max_redrives: int,
    takes_unknown: bool,
    setting: str | None,
    by: str,
    because: str | None,
    yes: bool,
    resumed: str | None,
    cancelled: str | None,
) -> int:
    """Send dead letters back to the topics that they came from.

    Only a failed request is sent, once: its row in the journal is reopened for one further run,
    before a deadline of its own. Requests that run, have run, are in doubt or discarded are left
    and counted.

    Ctrl-C stops after the current batch, and prints the command that goes on.

    \b
    Examples:
      onceward-dlq redrive 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11
      onceward-dlq redrive --reason BANK_BUSY --since 2h --rate 200 --dry-run
      onceward-dlq redrive --all --because "the bank is back"
      onceward-dlq redrive --code BAD_AMOUNT --set amount=5
      onceward-dlq redrive --resume 0198f0c1-55aa-7c3e-8000-0f6a0c3f7d11
    """
    is_of_another = resumed is not None or cancelled is not None
    if is_of_another and (dry_run or request_ids or setting is not None):
        raise click.UsageError(
            "--resume and --cancel go on with a redrive as it was begun: give neither requests nor "
            "--dry-run nor --set beside them"
        )
    settings = settings_of(config)
    if cancelled is not None:
        return _cancel(settings, cancelled, by=by, because=because)
    if resumed is not None:
        with _how(rate, "sending back") as how:
            ending = resume(settings, resumed, by=by, because=because, how=how)
        return print_ending(ending, as_json=as_json)
    given = given_with(given, request_ids)
    require_some(given, everything=everything)
    plan = RedrivePlan(
        filter=given.filter,
        topics=given.topics,
        dlqs=given.dlqs,
        deadline_s=settings.client.deadline_s if deadline_s is None else deadline_s,
        max_redrives=max_redrives,
        takes_unknown=takes_unknown,
        setting=None if setting is None else Setting.parse(setting),
    )
    if not dry_run and not yes and sys.stdin.isatty():
        letters = letters_there(settings, plan)
        require_yes(f"look at {letters:,} dead letters and send back those that match?")
    with _how(rate, "looking" if dry_run else "sending back") as how:
        if dry_run:
            ending = rehearse(settings, plan, how=how)
        else:
            ending = begin(settings, plan, by=by, because=because, how=how)
    return print_ending(ending, as_json=as_json)


@click.command()
@config_option
@json_option
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
def redrives(config: str | None, as_json: bool, limit: int) -> None:
    """List redrives, the latest first.

    \b
    Example:
      onceward-dlq redrives --config payments.toml
    """
    with closing(_redrives(settings_of(config))) as rows:
        rows.journal_id()
        found = rows.latest(limit)
    for one in found:
        click.echo(json.dumps(redrive_json(one)) if as_json else redrive_line(one))


COMMANDS = (redrive, redrives)


def _cancel(settings: Settings, redrive_id: str, *, by: str, because: str | None) -> int:
    with closing(_redrives(settings)) as rows:
        rows.journal_id()
        if rows.cancel(redrive_id, by=by, reason=because):
            click.echo(f"redrive {redrive_id} is cancelled: it stops before its next batch")
            return int(ExitCode.FINE)
        stands = rows.find(redrive_id)
    said = "there is no such redrive" if stands is None else f"it is {stands.state} already"
    click.echo(f"redrive {printable(redrive_id)}: {said}", err=True)
    return int(ExitCode.BAD_ANSWER)


def _redrives(settings: Settings) -> Redrives:
    return Redrives(
        settings.journal.url,
        group=settings.kafka.group,
        owner=new_owner(),
        statement_timeout_s=settings.journal.timeout_s,
    )


@contextmanager
def _how(rate: float | None, what: str) -> Iterator[How]:
    with progress_bar(what) as advance, stopping_at_signals() as stopping:
        yield How(rate, stopping, advance)
