"""The results of redrives for a person, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from consumer.dlq.list_hints import MOST_LINES, asked_anew_lines
from consumer.dlq.redrive.progress import (
    CHOSEN,
    NO_LETTER,
    READ,
    SENT,
    left_in_words,
    left_out_in_words,
    refusal_counts,
)
from consumer.dlq.redrive.redrive_session import STOPPED, RedriveEnding, redrives_of
from consumer.dlq.redrive.unjournaled import GO_ON
from consumer.dlq.unfinished import unfinished_json, unfinished_lines, unfinished_of
from consumer.journal.redrive.redrive_row import CANCELLED, DONE, RUNNING, Redrive
from consumer.journal.redrive.redrive_rule import Redrivable
from consumer.journal.redrive.reopening import UnfinishedRedrive
from feedback.console.commands import config_option, json_option, settings_of
from feedback.console.plurals import counted
from feedback.console.printable import printable
from feedback.console.source import say_source
from feedback.errors import ExitCode
from feedback.settings.settings import Settings

# Of one that is done, and has left out topics.
INCOMPLETE = "incomplete"


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


def print_ending(ending: RedriveEnding, *, as_json: bool) -> int:
    """Print the result of a redrive and return the command's exit code.

    1 when a request that was named was not sent, when Kafka refused a record, when a topic was left
    out, or when another redrive has sent a letter, too. A filter is expected to skip settled
    letters. 3 when Redis refused the statuses. 5 when the redrive was cut off.
    """
    counts = ending.counts
    if as_json:
        state = _ended(ending.state, ending.left_out)
        words: dict[str, Any] = {"redrive_id": ending.redrive_id or None, "state": state}
        words |= {name: counts.get(name, 0) for name in (READ, CHOSEN, SENT)}
        words |= {"refused": refusal_counts(counts), "untold": ending.untold}
        words |= {"left_out": dict(ending.left_out)}
        if ending.replaced:
            words |= {"replaced_by": ending.replaced}
        if not ending.is_journaled:
            words |= {"sent_twice": ending.twice_count, "sent_twice_ids": ending.twice}
        if ending.later is not None:
            words |= {"succeeded_later": dict(ending.later.of)}
            words |= {"undecided_later": dict(ending.later.undecided)}
            words |= {"failed_later": dict(ending.later.failed)}
            words |= {"succeeded_later_is_whole": ending.later.is_whole}
        click.echo(json.dumps(words | {"requests": ending.of_named}))
    else:
        for line in _lines(ending):
            click.echo(line)
    if ending.state == STOPPED:
        return int(ExitCode.CUT)
    if ending.refusal:
        return int(ExitCode.NOT_AVAILABLE)
    is_bad = any(what != SENT for what in ending.of_named.values()) or bool(
        counts.get(Redrivable.NOT_TAKEN.value) or ending.twice_count or ending.left_out
    )
    return int(ExitCode.BAD_ANSWER if is_bad or ending.state == CANCELLED else ExitCode.FINE)


def _lines(ending: RedriveEnding) -> list[str]:
    counts = ending.counts
    sent, chosen = counts.get(SENT, 0), counts.get(CHOSEN, 0)
    if ending.is_trial:
        lines = [f"{sent:,} of {counted(chosen, 'letter')} would be sent back; nothing was changed"]
        if ending.state == STOPPED:
            lines.append("  it was stopped before the end: not all letters were counted")
    else:
        lines = [f"redrive {ending.redrive_id}: {sent:,} of {counted(chosen, 'letter')} sent back"]
    left = left_in_words(refusal_counts(counts), is_theirs=ending.is_theirs)
    for why, count in (left | left_out_in_words(ending.left_out)).items():
        lines.append(f"  {count:,} left: {why}")
    lines += without_letter(ending.of_named)
    lines += _replaced_lines(ending) + later_lines(ending) + _twice_lines(ending)
    if ending.is_trial:
        lines += risk_lines(ending)
    if ending.untold:
        why = ending.refusal or "Redis is away"
        lines.append(f"  {why}: {ending.untold:,} clients are told by the workers")
    if ending.state in (STOPPED, CANCELLED) and not ending.is_trial:
        how = f"go on with: onceward-dlq redrive --resume {ending.redrive_id}"
        lines.append(f"{ending.state} before the end; {how if ending.is_journaled else GO_ON}")
    elif ending.left_out and not ending.is_trial:
        lines.append(f"{INCOMPLETE}: begin another one for the letters that are there now")
    return lines


def _replaced_lines(ending: RedriveEnding) -> list[str]:
    shown = islice(ending.replaced.items(), MOST_LINES)
    lines = [printable(f"  {old} is now {new}") for old, new in shown]
    if ending.counts.get(SENT, 0) > len(lines) > 0:
        lines.append("  and others: `onceward-dlq show` of an old id names its new one")
    return lines


def _twice_lines(ending: RedriveEnding) -> list[str]:
    """Return what is known of another redrive at the same time, and what is not."""
    if ending.is_journaled or ending.is_trial or not ending.counts.get(SENT):
        return []
    if not ending.twice_count:
        return [
            "  no journal was asked: another redrive at this time may send them too, and says so"
        ]
    twice = counted(ending.twice_count, "letter")
    first = f"  {twice} of them another redrive has sent too: they are in their topics twice"
    return [first, *(printable(f"    {one}") for one in ending.twice[:MOST_LINES])]


def later_lines(ending: RedriveEnding) -> list[str]:
    """Return where later requests of the same key have succeeded, as far as it was asked."""
    return [] if ending.later is None else list(asked_anew_lines(ending.later))


def risk_lines(ending: RedriveEnding) -> list[str]:
    """Return which of the letters that would be sent may run twice."""
    return [f"  {one}" for one in ending.risks.words().values()]


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
        "plan": _plan_json(one.filter),
        **{name: one.all_counts.get(name, 0) for name in (READ, CHOSEN, SENT)},
        "refused": refusal_counts(one.all_counts),
        "left_out": dict(one.left_out),
        "letters": sum(end - begin for begin, end in one.spans.values()),
    }


def _plan_json(text: str) -> dict[str, Any]:
    """Return a plan without the whole new value that it may have: `show --value` shows values."""
    plan: dict[str, Any] = json.loads(text)
    if "whole" in (plan.get("setting") or ()):
        plan["setting"] = {"whole": True}
    return plan


def redrive_line(one: Redrive) -> str:
    """Return a redrive on one line."""
    began = datetime.fromtimestamp(one.started_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    sent, refused = one.all_counts.get(SENT, 0), sum(refusal_counts(one.all_counts).values())
    left = refused + sum(one.left_out.values())
    line = (
        f"{one.redrive_id}  {began}  {_state(one):10}  {sent:>9,} sent  {left:>7,} left  {one.by}"
    )
    return printable(line if one.reason is None else f"{line}: {one.reason}")


def _state(one: Redrive) -> str:
    """Return the state; a running redrive whose process has ended is `stopped`."""
    is_stopped = one.state == RUNNING and one.owner is None
    return STOPPED if is_stopped else _ended(one.state, one.left_out)


def _ended(state: str, left_out: Mapping[str, int]) -> str:
    return INCOMPLETE if state == DONE and left_out else state
