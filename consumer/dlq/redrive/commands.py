"""`onceward-dlq redrive` and `redrives`: send letters back to their topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

import click

from consumer.dlq.asked_anew import asked_anew, asked_anew_lines
from consumer.dlq.options import (
    Given,
    by_option,
    filter_options,
    given_with,
    require_some,
    require_yes,
    stopping_at_signals,
)
from consumer.dlq.redrive.endings import later_lines, print_ending, redrive_json, redrive_line
from consumer.dlq.redrive.loop import How
from consumer.dlq.redrive.plan import MAX_REDRIVES, RedrivePlan, Setting
from consumer.dlq.redrive.progress import SENT
from consumer.dlq.redrive.session import (
    Ending,
    begin,
    redrives_of,
    rehearse,
    resume,
)
from consumer.dlq.redrive.unjournaled import send_back
from feedback.console.commands import (
    JOURNALED,
    OF_A_GROUP,
    config_option,
    json_option,
    settings_of,
)
from feedback.console.contradictions import refuse_beside, refuse_beside_all
from feedback.console.plurals import counted
from feedback.console.printable import printable
from feedback.console.progress import progress_bar
from feedback.console.source import say_source
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
    "--again",
    "sends_again",
    is_flag=True,
    help="Of letters without a journal row, also those that were sent back before.",
)
@click.option(
    "--no-journal",
    is_flag=True,
    help="Do not ask the journal: for --dlq topics of other systems. Nothing is recorded; what was "
    "sent back before is found in the topics of origin.",
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
    sends_again: bool,
    no_journal: bool,
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
      onceward-dlq redrive --reason BANK_BUSY --since 2h --dry-run
      onceward-dlq redrive --reason BANK_BUSY --since 2h --rate 200
      onceward-dlq redrive --all --because "the bank is back"
      onceward-dlq redrive --code BAD_AMOUNT --set amount=5
      onceward-dlq redrive --dlq connect-dlq --no-journal --all
      onceward-dlq redrive --resume 0198f0c1-55aa-7c3e-8000-0f6a0c3f7d11
    """
    _refuse_contradictions()
    if no_journal and not given.dlqs:
        raise click.UsageError("--no-journal is for topics of other systems: name them with --dlq")
    if sends_again and not (takes_unknown or no_journal):
        raise click.UsageError("--again belongs to --unknown or --no-journal")
    given = given_with(given, request_ids)
    if resumed is None and cancelled is None:
        require_some(given, everything=everything)
    settings = settings_of(config, needs=OF_A_GROUP if no_journal else JOURNALED)
    if cancelled is not None:
        return _cancel(settings, cancelled, by=by, because=because)
    if resumed is not None:
        with _how(rate, "sending back") as how:
            ending = resume(settings, resumed, by=by, because=because, how=how)
        say_source(settings, as_json=as_json)
        return print_ending(ending, as_json=as_json)
    plan = RedrivePlan(
        filter=given.filter,
        topics=given.topics,
        dlqs=given.dlqs,
        deadline_s=settings.client.deadline_s if deadline_s is None else deadline_s,
        max_redrives=max_redrives,
        takes_unknown=takes_unknown,
        sends_again=sends_again,
        setting=None if setting is None else Setting.parse(setting),
    )
    asked = "" if no_journal else "journal"
    count: Way = partial(rehearse, settings, plan)
    send: Way = partial(begin, settings, plan, by=by, because=because)
    if no_journal:
        send = partial(send_back, settings, plan, by=by)
        count = partial(send, is_trial=True)
    if given.is_one_id and not (dry_run or yes or no_journal):
        _ask_where_asked_anew(settings, given)
    elif not (dry_run or yes):
        with _how(None, "counting") as how:
            found = count(how=how)
        if not found.counts.get(SENT) or how.stopping.is_set():
            say_source(settings, section=asked, as_json=as_json)
            return print_ending(found, as_json=as_json)
        for line in later_lines(found):
            click.echo(line, err=True)
        say_source(settings, section=asked)
        require_yes(f"send back {counted(found.counts[SENT], 'dead letter')} ({given.words()})?")
    with _how(rate, "looking" if dry_run else "sending back") as how:
        ending = (count if dry_run else send)(how=how)
    say_source(settings, section=asked, as_json=as_json)
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
    settings = settings_of(config)
    with closing(redrives_of(settings)) as rows:
        rows.journal_id()
        found = rows.latest(limit)
    say_source(settings, as_json=as_json)
    if not found and not as_json:
        click.echo("no redrive was begun")
    for one in found:
        click.echo(json.dumps(redrive_json(one)) if as_json else redrive_line(one))


COMMANDS = (redrive, redrives)
Way = Callable[..., Ending]
_RECORDED = ("--config", "--json", "--by", "--because")


def _cancel(settings: Settings, redrive_id: str, *, by: str, because: str | None) -> int:
    with closing(redrives_of(settings)) as rows:
        rows.journal_id()
        if rows.cancel(redrive_id, by=by, reason=because):
            click.echo(f"redrive {redrive_id} is cancelled: it stops before its next batch")
            return int(ExitCode.FINE)
        stands = rows.find(redrive_id)
    said = "there is no such redrive" if stands is None else f"it is {stands.state} already"
    click.echo(f"redrive {printable(redrive_id)}: {said}", err=True)
    return int(ExitCode.BAD_ANSWER)


@contextmanager
def _how(rate: float | None, what: str) -> Iterator[How]:
    with progress_bar(what) as advance, stopping_at_signals() as stopping:
        yield How(rate, stopping, advance)


def _ask_where_asked_anew(settings: Settings, given: Given) -> None:
    # One that is named is sent without a question, but where another may have done its work.
    later = asked_anew(settings, given.filter.ids)
    for line in asked_anew_lines(later):
        click.echo(line, err=True)
    if later.names_any:
        require_yes(f"send {given.words()} back all the same?")


def _refuse_contradictions() -> None:
    # They go on with a redrive as it was begun.
    refuse_beside_all("--cancel", but=_RECORDED)
    refuse_beside_all("--resume", but=(*_RECORDED, "--rate"))
    refuse_beside("--dry-run", "--rate")
    # Nothing is recorded without one.
    refuse_beside("--no-journal", "--because")
