"""`onceward-dlq redrive` and `redrives`: send letters back to their topics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from consumer.dlq.asked_anew import MOST_LINES, asked_anew_lines
from consumer.dlq.options import (
    Given,
    by_option,
    filter_options,
    given_with,
    require_some,
    require_yes,
    stopping_at_signals,
)
from consumer.dlq.redrive.loop import How
from consumer.dlq.redrive.plan import MAX_REDRIVES, RedrivePlan, Setting
from consumer.dlq.redrive.progress import CHOSEN, NO_LETTER, READ, SENT, refused
from consumer.dlq.redrive.session import (
    REHEARSED,
    STOPPED,
    Ending,
    begin,
    redrives_of,
    rehearse,
    resume,
)
from consumer.journal.redrive_row import CANCELLED, RUNNING, Redrive
from consumer.journal.redrive_rule import IN_WORDS, Redrivable
from feedback.console.commands import config_option, json_option, settings_of
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
      onceward-dlq redrive --reason BANK_BUSY --since 2h --dry-run
      onceward-dlq redrive --reason BANK_BUSY --since 2h --rate 200
      onceward-dlq redrive --all --because "the bank is back"
      onceward-dlq redrive --code BAD_AMOUNT --set amount=5
      onceward-dlq redrive --resume 0198f0c1-55aa-7c3e-8000-0f6a0c3f7d11
    """
    # They go on with a redrive as it was begun.
    refuse_beside_all("--cancel", but=_RECORDED)
    refuse_beside_all("--resume", but=(*_RECORDED, "--rate"))
    refuse_beside("--dry-run", "--rate")
    given = given_with(given, request_ids)
    if resumed is None and cancelled is None:
        require_some(given, everything=everything)
    settings = settings_of(config)
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
        setting=None if setting is None else Setting.parse(setting),
    )
    if not (dry_run or yes or given.is_one_id):
        with _how(None, "counting") as how:
            found = rehearse(settings, plan, how=how)
        if not found.counts.get(SENT) or how.stopping.is_set():
            say_source(settings, as_json=as_json)
            return print_ending(found, as_json=as_json)
        for line in _later_lines(found):
            click.echo(line, err=True)
        say_source(settings)
        require_yes(f"send back {counted(found.counts[SENT], 'dead letter')} ({given.words()})?")
    with _how(rate, "looking" if dry_run else "sending back") as how:
        if dry_run:
            ending = rehearse(settings, plan, how=how)
        else:
            ending = begin(settings, plan, by=by, because=because, how=how)
    say_source(settings, as_json=as_json)
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


def print_ending(ending: Ending, *, as_json: bool) -> int:
    """Print the result of a redrive and return the command's exit code.

    1 when a request that was named was not sent, or when Kafka refused a record. A filter is
    expected to skip settled letters. 5 when the redrive was cut off.
    """
    counts = ending.counts
    if as_json:
        words: dict[str, Any] = {"redrive_id": ending.redrive_id or None, "state": ending.state}
        words |= {name: counts.get(name, 0) for name in (READ, CHOSEN, SENT)}
        words |= {"refused": refused(counts), "untold": ending.untold}
        if ending.replaced:
            words |= {"replaced_by": ending.replaced}
        if ending.later is not None:
            words |= {"succeeded_later": dict(ending.later.of)}
            words |= {"succeeded_later_is_whole": ending.later.is_whole}
        click.echo(json.dumps(words | {"requests": ending.of_named}))
    else:
        for line in _lines(ending):
            click.echo(line)
    if ending.state == STOPPED:
        return int(ExitCode.CUT)
    is_bad = any(what != SENT for what in ending.of_named.values()) or bool(
        counts.get(Redrivable.NOT_TAKEN.value)
    )
    return int(ExitCode.BAD_ANSWER if is_bad or ending.state == CANCELLED else ExitCode.FINE)


def _lines(ending: Ending) -> list[str]:
    counts = ending.counts
    sent, chosen = counts.get(SENT, 0), counts.get(CHOSEN, 0)
    if ending.state == REHEARSED:
        lines = [f"{sent:,} of {counted(chosen, 'letter')} would be sent back; nothing was changed"]
    else:
        lines = [f"redrive {ending.redrive_id}: {sent:,} of {counted(chosen, 'letter')} sent back"]
    for name, count in refused(counts).items():
        lines.append(f"  {count:,} left: {IN_WORDS[Redrivable(name)]}")
    lines += without_letter(ending.of_named)
    lines += _replaced_lines(ending) + _later_lines(ending)
    if ending.untold:
        lines.append(f"  Redis is away: {ending.untold:,} clients are told by the workers")
    if ending.state in (STOPPED, CANCELLED):
        how = f"onceward-dlq redrive --resume {ending.redrive_id}"
        lines.append(f"{ending.state} before the end; go on with: {how}")
    return lines


def _replaced_lines(ending: Ending) -> list[str]:
    shown = islice(ending.replaced.items(), MOST_LINES)
    lines = [printable(f"  {old} is now {new}") for old, new in shown]
    if ending.counts.get(SENT, 0) > len(lines) > 0:
        lines.append("  and others: `onceward-dlq show` of an old id names its new one")
    return lines


def _later_lines(ending: Ending) -> list[str]:
    return [] if ending.later is None else list(asked_anew_lines(ending.later))


def without_letter(of_named: Mapping[str, str]) -> list[str]:
    """Return a sentence for each named request that has no letter."""
    without = (name for name, what in of_named.items() if what == NO_LETTER)
    return [f"  {printable(one)}: no dead letter is of it" for one in without]


def redrive_json(one: Redrive) -> dict[str, Any]:
    """Return a redrive as JSON values."""
    return {
        "redrive_id": one.redrive_id,
        "state": _state(one),
        "by": one.by,
        "because": one.reason,
        "started_at": one.started_at,
        "updated_at": one.updated_at,
        "plan": json.loads(one.filter),
        **{name: one.all_counts.get(name, 0) for name in (READ, CHOSEN, SENT)},
        "refused": refused(one.all_counts),
        "letters": sum(end - begin for begin, end in one.spans.values()),
    }


def redrive_line(one: Redrive) -> str:
    """Return a redrive on one line."""
    began = datetime.fromtimestamp(one.started_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    sent, left = one.all_counts.get(SENT, 0), sum(refused(one.all_counts).values())
    line = f"{one.redrive_id}  {began}  {_state(one):9}  {sent:>9,} sent  {left:>7,} left  {one.by}"
    return printable(line if one.reason is None else f"{line}: {one.reason}")


def _state(one: Redrive) -> str:
    """Return the state; a running redrive whose process has ended is `stopped`."""
    return STOPPED if one.state == RUNNING and one.owner is None else one.state
