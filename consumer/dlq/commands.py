"""`onceward-dlq`: its commands, and the group that they belong to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from consumer.dlq import discard_command, resolve_command
from consumer.dlq.as_json import listed_json, report_json, summary_json
from consumer.dlq.doubts_export import DoubtsToExport
from consumer.dlq.doubts_list import (
    count_open_doubts,
    doubt_lines,
    doubts_json,
    doubts_of,
    require_doubts_alone,
    unswept_lines,
)
from consumer.dlq.doubts_page import doubts_page
from consumer.dlq.exporting import export, export_rows
from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter_state import LetterState
from consumer.dlq.list_hints import (
    ListHints,
    asked_anew,
    asked_anew_lines,
    hint_lines,
    hints_json,
    hints_of,
)
from consumer.dlq.list_page import console_for, list_page
from consumer.dlq.listing import JudgedLetter, judged_letters, shown_states, tally_of
from consumer.dlq.next_commands import next_commands
from consumer.dlq.options import LetterOptions, filter_options
from consumer.dlq.redrive import commands as redrive_commands
from consumer.dlq.report import RequestReport
from consumer.dlq.report_reading import report_of
from consumer.dlq.show_page import VALUE_LIMIT, nothing_known, show_page
from consumer.dlq.tally import BARS
from consumer.dlq.timeline_page import next_lines
from consumer.journal.doubts import NOTHING_UNSWEPT
from consumer.journal.redrive.later_requests import NOTHING_LATER, NamedLater
from feedback import __version__
from feedback.clock import epoch_ms
from feedback.console.commands import (
    JOURNALED,
    OF_A_GROUP,
    Group,
    config_option,
    json_option,
    settings_of,
)
from feedback.console.contradictions import refuse_beside
from feedback.console.plurals import counted
from feedback.console.printable import printable
from feedback.console.progress import progress_bar
from feedback.console.source import say_source, source_json
from feedback.errors import ExitCode
from feedback.records.envelope import check_request_id
from feedback.settings.settings import Settings

all_option = click.option(
    "--all", "everything", is_flag=True, help="Also settled letters: repaired, discarded, …"
)
no_journal_option = click.option(
    "--no-journal", is_flag=True, help="Do not ask the journal: for letters of other systems."
)

ENDLESS = 2**62


@click.group(cls=Group)
@click.version_option(__version__)
def cli() -> None:
    """Shows requests that failed for good, and repairs them."""


for room in (redrive_commands, resolve_command, discard_command):
    for one in room.COMMANDS:
        cli.add_command(one)


@cli.command("list")
@config_option
@json_option
@filter_options
@all_option
@no_journal_option
@click.option(
    "--limit",
    type=click.IntRange(0, 10_000),
    default=50,
    show_default=True,
    help="List only so many of the newest; all are counted.",
)
def list_command(
    config: str | None,
    as_json: bool,
    given: LetterOptions,
    everything: bool,
    no_journal: bool,
    limit: int,
) -> None:
    """Count and list dead letters that need a decision, or the requests that are in doubt.

    Doubts have no letter: --state in_doubt lists them from the journal, with the commands that end
    them. --json prints a line for each, the newest first, and one {"summary": …} at the end.

    \b
    Examples:
      onceward-dlq list --config payments.toml
      onceward-dlq list --topic payments --since 2h --reason BANK_BUSY
      onceward-dlq list --state in_doubt --since 1d
      onceward-dlq list --dlq connect-dlq --no-journal
    """
    asks_for_doubts = _asks_for_doubts(given)
    settings = settings_of(config, needs=OF_A_GROUP if no_journal else JOURNALED)
    if asks_for_doubts:
        _list_doubts(settings, given, as_json=as_json, limit=limit, config=config)
        return
    shown = shown_states(given, everything=everything)
    with _letters(settings, given, no_journal=no_journal) as pages:
        tally = tally_of(pages, shown=shown, limit=limit)
    asks_all = not (no_journal or given.dlqs or given.filter.states)
    hints = ListHints() if no_journal else hints_of(settings, tally, asks_doubts=asks_all)
    say_source(settings, as_json=as_json, section="" if no_journal else "journal")
    if not as_json:
        console = console_for()
        page = list_page(tally, width=console.width, doubts=hints.doubts or 0, now=epoch_ms())
        console.print(page)
        for line in hint_lines(hints, config=config):
            click.echo(line)
        return
    for one in tally.newest():
        click.echo(json.dumps(listed_json(one, later=hints.later.of.get(one.request_id, ()))))
    summary = summary_json(tally, bars=BARS) | hints_json(hints)
    click.echo(json.dumps({"summary": summary | ({} if no_journal else source_json(settings))}))


@contextmanager
def _letters(
    settings: Settings, given: LetterOptions, *, no_journal: bool
) -> Iterator[Iterator[list[JudgedLetter]]]:
    """Yield the chosen letters page by page, under a progress bar."""
    with progress_bar("reading dead letters") as advance:
        yield judged_letters(settings, given, ask_journal=not no_journal, advance=advance)


def _list_doubts(
    settings: Settings, given: LetterOptions, *, as_json: bool, limit: int, config: str | None
) -> None:
    found = doubts_of(settings, given, limit=limit)
    say_source(settings, as_json=as_json)
    if not as_json:
        console_for().print(doubts_page(found))
    said = doubts_json if as_json else doubt_lines
    for line in said(found, config=config):
        click.echo(line)


@cli.command()
@config_option
@json_option
@click.argument("request_id")
@click.option(
    "--topic", "topics", multiple=True, help="Look for letters of this topic only; repeatable."
)
@click.option("--dlq", "dlqs", multiple=True, help="Look in this dead letter topic; repeatable.")
@no_journal_option
@click.option("--value", "shows_value", is_flag=True, help="Show the request's value, cut.")
@click.option("--whole-value", is_flag=True, help="Show the value uncut.")
@click.option("--no-value", is_flag=True, hidden=True, help="As without --value.")
def show(
    config: str | None,
    as_json: bool,
    request_id: str,
    topics: tuple[str, ...],
    dlqs: tuple[str, ...],
    no_journal: bool,
    shows_value: bool,
    whole_value: bool,
    no_value: bool,
) -> int:
    """Show a request in any state: its timeline, who holds it, and the commands that could follow.

    All that Redis, the journal and the dead letters know of it, in the order of time. Where none
    of them knows it the exit code is 1, and 3 where Kafka or Redis was away: it may be known there.
    Letters of other systems are found with --dlq.

    \b
    Examples:
      onceward-dlq show 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11 --config payments.toml
      onceward-dlq show 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11 --json | jq .timeline
      onceward-dlq show orders-0-17 --dlq connect-dlq --no-journal --value
    """
    refuse_beside("--no-value", "--value", "--whole-value")
    refuse_beside("--dlq", "--topic")
    settings = settings_of(config, needs=OF_A_GROUP if no_journal else JOURNALED)
    check_request_id(request_id)
    given = LetterOptions(LetterFilter(), topics=frozenset(topics), dlqs=frozenset(dlqs))
    with progress_bar("looking for its letters") as advance:
        report = report_of(settings, request_id, given, ask_journal=not no_journal, advance=advance)
    later = NOTHING_LATER if no_journal else asked_anew(settings, [request_id])
    say_source(settings, as_json=as_json, section="" if no_journal else "journal")
    limit = ENDLESS if whole_value else VALUE_LIMIT if shows_value else None
    return _print_shown(report, later, as_json=as_json, limit=limit, config=config)


def _print_shown(
    report: RequestReport,
    later: NamedLater,
    *,
    as_json: bool,
    limit: int | None,
    config: str | None,
) -> int:
    """Print a request and return the command's exit code."""
    request_id = report.request_id
    if as_json:
        words = report_json(report, value=limit is not None, config=config)
        words |= {"succeeded_later": list(later.of.get(request_id, ()))}
        words |= {"undecided_later": list(later.undecided.get(request_id, ()))}
        words |= {"failed_later": list(later.failed.get(request_id, ()))}
        click.echo(json.dumps(words))
    elif report.is_known:
        console = console_for()
        console.print(show_page(report, width=console.width, value_limit=limit))
        for line in (*asked_anew_lines(later), *next_lines(next_commands(report, config=config))):
            click.echo(line)
    else:
        click.echo(nothing_known(report), err=True)
    if report.is_known:
        return int(ExitCode.FINE)
    is_whole = report.letters_away is None and report.away is None
    return int(ExitCode.BAD_ANSWER if is_whole else ExitCode.NOT_AVAILABLE)


@cli.command("export")
@config_option
@filter_options
@all_option
@no_journal_option
@click.argument("file")
def export_command(
    config: str | None, given: LetterOptions, everything: bool, no_journal: bool, file: str
) -> None:
    """Write dead letters to FILE for analysis: .parquet, .jsonl, or - for JSON lines here.

    --state in_doubt writes the open doubts, with a letter or without, from the journal's rows, and
    the value where Redis or the topic still has it. What is not known is null.

    \b
    Examples:
      onceward-dlq export letters.parquet --config payments.toml --all
      onceward-dlq export doubts.jsonl --state in_doubt
      onceward-dlq export - --since 1d | jq .exception_message
    """
    asks_for_doubts = _asks_for_doubts(given)
    settings = settings_of(config, needs=OF_A_GROUP if no_journal else JOURNALED)
    if asks_for_doubts:
        _export_doubts(settings, given, file)
        return
    shown = shown_states(given, everything=everything)
    with _letters(settings, given, no_journal=no_journal) as pages:
        count = export(pages, file, shown=shown)
    asks_all = not (no_journal or given.dlqs or given.filter.states)
    doubts, unswept = count_open_doubts(settings) if asks_all else (0, NOTHING_UNSWEPT)
    say_source(settings, section="" if no_journal else "journal")
    click.echo(f"{counted(count, 'dead letter')} written to {file}", err=True)
    if doubts:
        are = "is" if doubts == 1 else "are"
        words = f"{counted(doubts, 'open doubt')} {are} not among them: export --state in_doubt"
        click.echo(words, err=True)
    for line in unswept_lines(unswept):
        click.echo(line, err=True)


def _export_doubts(settings: Settings, given: LetterOptions, file: str) -> None:
    with progress_bar("reading doubts") as advance:
        doubts = DoubtsToExport(settings, given, advance=advance)
        count = export_rows(doubts.pages(), file)
    say_source(settings)
    click.echo(f"{counted(count, 'open doubt')} written to {file}", err=True)
    for line in unswept_lines(doubts.unswept):
        click.echo(line, err=True)
    for why in doubts.away.values():
        click.echo(printable(f"some values are null: {why}"), err=True)


def _asks_for_doubts(given: LetterOptions) -> bool:
    """Whether the options ask for doubts, which are rows, in place of letters.

    Raises:
        UsageError: they give `--state` two meanings, or are about letters and doubts at once.
    """
    refuse_beside("--state", "--all", "--no-journal")
    if LetterState.IN_DOUBT not in given.filter.states:
        return False
    require_doubts_alone(given)
    return True
