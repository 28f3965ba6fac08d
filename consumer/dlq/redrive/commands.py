"""`onceward-dlq redrive`: send letters back to their topics."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO, NamedTuple

import click

from consumer.dlq.list_hints import asked_anew, asked_anew_lines
from consumer.dlq.options import (
    AGAIN_WORDS,
    UNKNOWN_WORDS,
    LetterOptions,
    by_option,
    choosing_options,
    given_with,
    require_some,
    require_yes,
    stopping_at_signals,
)
from consumer.dlq.redrive.endings import cancel, later_lines, print_ending, redrives, risk_lines
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.progress import SENT
from consumer.dlq.redrive.redrive_plan import MAX_REDRIVES, FieldValue, RedrivePlan, WholeValue
from consumer.dlq.redrive.redrive_session import (
    RedriveEnding,
    asked_anew_since,
    begin,
    rehearse,
    resume,
)
from consumer.dlq.redrive.unjournaled import send_back
from consumer.journal.redrive.later_requests import NamedLater
from feedback.console.commands import (
    JOURNALED,
    OF_A_GROUP,
    config_option,
    json_option,
    settings_of,
)
from feedback.console.contradictions import refuse_beside, refuse_beside_all
from feedback.console.plurals import counted
from feedback.console.progress import progress_bar
from feedback.console.source import say_source
from feedback.settings.settings import Settings

SWITCH_S = 0.0005


@click.command()
@config_option
@json_option
@choosing_options
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
    help=UNKNOWN_WORDS,
)
@click.option(
    "--again",
    "sends_again",
    is_flag=True,
    help=AGAIN_WORDS,
)
@click.option(
    "--no-journal",
    is_flag=True,
    help="Do not ask the journal: for --dlq topics of other systems. Nothing is recorded; what was "
    "sent back before is found in the topics of origin. Two such redrives at once may both send a "
    "letter: the one that ends last says so.",
)
@click.option(
    "--set",
    "setting",
    metavar="PATH=VALUE",
    help="Replace a value of the JSON, by its path (card.number, /items/0/price). The letter "
    "becomes a new request that names the old one; the old one is discarded.",
)
@click.option(
    "--value",
    metavar="TEXT",
    help="Replace the whole value of one letter, named by its id, likewise. JSON stays JSON.",
)
@click.option(
    "--value-file", type=click.File("rb"), help="Likewise, by the bytes of a file; - is stdin."
)
@by_option
@click.option("--because", help="The reason; recorded.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--resume", "resumed", metavar="ID", help="Go on with a redrive that was cut off.")
@click.option("--cancel", "cancelled", metavar="ID", help="Stop a redrive, wherever it runs.")
def redrive(
    config: str | None,
    as_json: bool,
    given: LetterOptions,
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
    value: str | None,
    value_file: BinaryIO | None,
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
      onceward-dlq redrive 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11 --value '{"amount": 5}'
      onceward-dlq redrive --dlq connect-dlq --no-journal --all
      onceward-dlq redrive --resume 0198f0c1-55aa-7c3e-8000-0f6a0c3f7d11
    """
    _refuse_contradictions()
    _refuse_incomplete(
        given, no_journal=no_journal, takes_unknown=takes_unknown, sends_again=sends_again
    )
    given = given_with(given, request_ids)
    if resumed is None and cancelled is None:
        require_some(given, everything=everything)
    changed = _setting_of(given, setting, value, value_file)
    settings = settings_of(config, needs=OF_A_GROUP if no_journal else JOURNALED)
    if cancelled is not None:
        return cancel(settings, cancelled, by=by, because=because, as_json=as_json, config=config)
    if resumed is not None:
        if not yes:
            _ask_of_the_rest(settings, resumed)
        with _pace(rate, "sending back") as pace:
            ending = resume(settings, resumed, by=by, because=because, pace=pace)
        return _said(settings, ending, as_json=as_json)
    plan = RedrivePlan(
        filter=given.filter,
        topics=given.topics,
        dlqs=given.dlqs,
        deadline_s=settings.client.deadline_s if deadline_s is None else deadline_s,
        max_redrives=max_redrives,
        takes_unknown=takes_unknown,
        sends_again=sends_again,
        setting=changed,
    )
    ways_of = partial(_ways, settings, by=by, because=because, is_journaled=not no_journal)
    ways, within = ways_of(plan), None
    if not (dry_run or yes):
        has_some, found = _ask(settings, given, ways)
        if found is not None and not has_some:
            return _said(settings, found, as_json=as_json, section=ways.section)
        if found is not None:
            plan = replace(plan, looked_at=found.looked_at, topic_ids=found.topic_ids)
            ways, within = ways_of(plan), found.seen
    with _pace(rate, "looking" if dry_run else "sending back") as pace:
        ending = ways.rehearse(pace=pace) if dry_run else ways.send(pace=pace, within=within)
    return _said(settings, ending, as_json=as_json, section=ways.section)


COMMANDS = (redrive, redrives)
_RECORDED = ("--config", "--json", "--by", "--because")


class _Ways(NamedTuple):
    """The ways to count letters and to send them.

    Args:
        section: of the settings, with the database that is asked; empty without one.
    """

    rehearse: Callable[..., RedriveEnding]
    send: Callable[..., RedriveEnding]
    section: str


def _setting_of(
    given: LetterOptions, setting: str | None, value: str | None, value_file: BinaryIO | None
) -> FieldValue | WholeValue | None:
    if setting is not None:
        return FieldValue.parse(setting)
    if value is None and value_file is None:
        return None
    if len(given.filter.ids) != 1:
        raise click.UsageError("a whole new value is of one request: name its id")
    # As the shell has given it, whatever its bytes are.
    return WholeValue(os.fsencode(value or "") if value_file is None else value_file.read())


def _ways(
    settings: Settings, plan: RedrivePlan, *, by: str, because: str | None, is_journaled: bool
) -> _Ways:
    if is_journaled:
        send = partial(begin, settings, plan, by=by, because=because)
        return _Ways(partial(rehearse, settings, plan), send, "journal")
    alone = partial(send_back, settings, plan, by=by)
    return _Ways(partial(alone, is_trial=True), alone, "")


def _ask(
    settings: Settings, given: LetterOptions, ways: _Ways
) -> tuple[bool, RedriveEnding | None]:
    """Ask where that is needed; say whether there is something to send, and return the counts.

    They have the spans of the letters that were counted: what fails after the question is none of
    its answer. None where nothing was counted.

    One request that is named is sent without a question, but where another may have done its work.

    Raises:
        NotConfirmed: the answer is not yes.
    """
    if given.is_one_id and ways.section:
        _ask_where_asked_anew(settings, given)
        return True, None
    with _pace(None, "counting") as pace:
        found = ways.rehearse(pace=pace)
    if not found.counts.get(SENT) or pace.stopping.is_set():
        return False, found
    for line in (*later_lines(found), *risk_lines(found)):
        click.echo(line, err=True)
    say_source(settings, section=ways.section)
    require_yes(f"send back {counted(found.counts[SENT], 'dead letter')} ({given.words()})?")
    return True, found


def _said(
    settings: Settings, ending: RedriveEnding, *, as_json: bool, section: str = "journal"
) -> int:
    """Print a result with its source; return the exit code."""
    say_source(settings, section=section, as_json=as_json)
    return print_ending(ending, as_json=as_json)


@contextmanager
def _pace(rate: float | None, what: str) -> Iterator[RedrivePace]:
    with progress_bar(what) as advance, stopping_at_signals() as stopping, prompt_threads():
        yield RedrivePace(rate, stopping, advance)


@contextmanager
def prompt_threads() -> Iterator[None]:
    """Let the threads of this process change often while the block runs.

    Reading, reopening and sending compute in three of them. At Python's 5 ms each answer of Kafka
    and Redis waits so long for a thread that computes, and the sending waits for many.
    """
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)


def _ask_where_asked_anew(settings: Settings, given: LetterOptions) -> None:
    later = asked_anew(settings, given.filter.ids)
    _say_later(later)
    if later.names_any:
        require_yes(f"send {given.words()} back all the same?")


def _ask_of_the_rest(settings: Settings, redrive_id: str) -> None:
    later = asked_anew_since(settings, redrive_id)
    _say_later(later)
    if later.names_any or not later.is_whole:
        require_yes("send the rest back all the same?")


def _say_later(later: NamedLater) -> None:
    for line in asked_anew_lines(later):
        click.echo(line, err=True)


def _refuse_incomplete(
    given: LetterOptions, *, no_journal: bool, takes_unknown: bool, sends_again: bool
) -> None:
    if no_journal and not given.dlqs:
        raise click.UsageError("--no-journal is for topics of other systems: name them with --dlq")
    if sends_again and not (takes_unknown or no_journal):
        raise click.UsageError("--again belongs to --unknown or --no-journal")


def _refuse_contradictions() -> None:
    # They go on with a redrive as it was begun.
    refuse_beside_all("--cancel", but=_RECORDED)
    refuse_beside_all("--resume", but=(*_RECORDED, "--rate", "--yes"))
    refuse_beside("--dry-run", "--rate")
    refuse_beside("--set", "--value", "--value-file")
    refuse_beside("--value", "--value-file")
    # Nothing is recorded without one.
    refuse_beside("--no-journal", "--because")
