"""`onceward-dlq resolve` and `discard`: record the decisions of a person."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import chain

import click

from consumer.dlq.listing import lookup_of
from consumer.dlq.options import (
    Given,
    by_option,
    filter_options_as,
    given_with,
    reason_option,
    require_some,
    require_yes,
    stopping_at_signals,
)
from consumer.dlq.reading import DeadLetters
from consumer.dlq.redrive.batch_sender import RedriveStatuses, opened_statuses
from consumer.dlq.redrive.commands import without_letter
from consumer.dlq.redrive.progress import NO_LETTER, refused
from consumer.dlq.redrive.record import candidate_of
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive_rule import IN_WORDS, Redrivable
from consumer.journal.resolving import RESOLVED, Decisions
from feedback.console.commands import config_option, json_option, settings_of
from feedback.console.printable import printable
from feedback.console.progress import progress_bar
from feedback.errors import ExitCode
from feedback.records.envelope import check_request_id
from feedback.settings.settings import Settings

_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}\Z")


@click.command()
@config_option
@json_option
@click.argument("request_id")
@click.option("--succeeded", "outcome", flag_value="succeeded", help="Its effect happened.")
@click.option("--failed", "outcome", flag_value="failed", help="Its effect did not happen.")
@click.option("--result", help="JSON: its client gets it, as if the handler had returned it.")
@click.option("--code", help=f"Why it failed, in upper case. Default: {RESOLVED}.")
@reason_option("--reason", "--because", "reason", help="How you know.")
@by_option
def resolve(
    config: str | None,
    as_json: bool,
    request_id: str,
    outcome: str | None,
    result: str | None,
    code: str | None,
    reason: str,
    by: str,
) -> int:
    """End the doubt about a request: the only way for one that is IN_DOUBT.

    Its client is told the outcome. One that failed gets a dead letter, and can then be sent back.

    \b
    Examples:
      onceward-dlq resolve 0198f0c0-… --succeeded --result '{"receipt": 7}' --reason "bank's list"
      onceward-dlq resolve 0198f0c0-… --failed --reason "the bank has no such charge"
    """
    check_request_id(request_id)
    has_succeeded = _has_succeeded(outcome, result, code)
    given = _as_json(result)
    settings = settings_of(config)
    with ExitStack() as stack:
        decisions, statuses = _opened(settings, stack)
        is_done, row = decisions.resolve(
            request_id,
            has_succeeded=has_succeeded,
            result=given,
            code=None if has_succeeded else code or RESOLVED,
            reason=reason,
            by=by,
        )
        is_told = is_done and row is not None and statuses.row(row)
        if is_told and row is not None:
            decisions.note_published(row)
    if as_json:
        state = None if row is None else row.state
        words = {"request_id": request_id, "resolved": is_done, "status": state, "told": is_told}
        click.echo(json.dumps(words))
    else:
        click.echo(_of_resolved(request_id, row, is_done=is_done, is_told=is_told))
    return int(ExitCode.FINE if is_done else ExitCode.BAD_ANSWER)


def _has_succeeded(outcome: str | None, result: str | None, code: str | None) -> bool:
    """Return whether the decision is SUCCEEDED.

    Raises:
        UsageError: there is no decision, or the options exclude each other.
    """
    if outcome is None:
        raise click.UsageError("say --succeeded or --failed")
    if outcome == "succeeded":
        if code is not None:
            raise click.UsageError("--code belongs to --failed")
        return True
    if result is not None:
        raise click.UsageError("--result belongs to --succeeded")
    if code is not None and not _CODE.match(code):
        raise click.UsageError("--code: upper case letters, digits and _, like NOT_CHARGED")
    return False


def _as_json(result: str | None) -> str | None:
    if result is None:
        return None
    try:
        return json.dumps(json.loads(result, parse_constant=_no_number))
    except (ValueError, RecursionError):
        raise click.UsageError("--result is no JSON") from None


def _no_number(name: str) -> None:
    raise ValueError(name)


def _opened(settings: Settings, stack: ExitStack) -> tuple[Decisions, RedriveStatuses]:
    """Return the journal's decisions and the status writer; the stack closes both."""
    decisions = Decisions(
        settings.journal.url,
        group=settings.kafka.group,
        statement_timeout_s=settings.journal.timeout_s,
    )
    stack.enter_context(closing(decisions))
    return decisions, stack.enter_context(opened_statuses(settings, decisions.journal_id()))


def _of_resolved(request_id: str, row: Row | None, *, is_done: bool, is_told: bool) -> str:
    if row is None:
        return f"{printable(request_id)}: the journal knows no such request"
    if not is_done:
        return f"{printable(request_id)} is {row.state}: only an IN_DOUBT request can be resolved"
    told = "its client can see it" if is_told else "Redis is away: a worker will write it there"
    letter = "" if row.state == JournalState.SUCCEEDED else "; a dead letter follows"
    return f"{printable(request_id)} is {row.state}: {told}{letter}"


TAKEN = "taken"


@click.command()
@config_option
@json_option
@filter_options_as(reason="--label")
@click.argument("request_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All letters, where no filter is given.")
@reason_option("--reason", "--because", "because", help="Why nothing is done about it.")
@by_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(
    config: str | None,
    as_json: bool,
    given: Given,
    request_ids: tuple[str, ...],
    everything: bool,
    because: str,
    by: str,
    yes: bool,
) -> int:
    """Say that nothing is to be done about failures: their letters are listed no more.

    The requests stay FAILED and their letters stay where they are, but none is sent back any more.
    A request that the journal does not know needs a letter.

    \b
    Examples:
      onceward-dlq discard 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11 --reason "a test"
      onceward-dlq discard --topic payments --until 7d --reason "customers were refunded"
    """
    settings = settings_of(config)
    named = given_with(given, request_ids)
    require_some(named, everything=everything)
    only_ids = given.filter.is_empty and not given.dlqs and bool(request_ids)
    if not only_ids and not yes and sys.stdin.isatty():
        require_yes("discard all failures that match?")
    counts: Counter[str] = Counter()
    told: dict[str, str] = {}
    with ExitStack() as stack:
        decisions, _ = _opened(settings, stack)
        stopping = stack.enter_context(stopping_at_signals())
        known = _known(settings, request_ids) if only_ids else {}
        left = named.filter.ids - known.keys()
        pages: Iterable[dict[str, int | None]] = [known]
        if not only_ids or left:
            rest = replace(named, filter=replace(named.filter, ids=left))
            pages = chain(pages, stack.enter_context(_chosen(settings, rest)))
        for page in pages:
            for request_id, why in decisions.discard(page, by=by, reason=because).items():
                counts[TAKEN if why is None else why.value] += 1
                if request_id in named.filter.ids:
                    told[request_id] = TAKEN if why is None else why.value
            if stopping.is_set():
                break
        is_cut = stopping.is_set()
    if not is_cut:
        told = dict.fromkeys(sorted(named.filter.ids), NO_LETTER) | told
    _print_discarded(counts, told, as_json=as_json)
    if is_cut:
        return int(ExitCode.CUT)
    is_bad = any(what != TAKEN for what in told.values())
    return int(ExitCode.BAD_ANSWER if is_bad else ExitCode.FINE)


COMMANDS = (resolve, discard)


def _known(settings: Settings, request_ids: Collection[str]) -> dict[str, int | None]:
    """Return the requests that the journal knows: its rows decide over the letters."""
    with lookup_of(settings) as lookup:
        rows, _ = lookup.rows(request_ids)
    return dict.fromkeys(rows)


@contextmanager
def _chosen(settings: Settings, given: Given) -> Iterator[Iterator[dict[str, int | None]]]:
    """Yield pages of the chosen letters' requests, each with the time of its failure."""
    with (
        DeadLetters(settings.kafka, topics=given.topics, dlqs=given.dlqs) as letters,
        progress_bar("discarding") as advance,
    ):

        def pages() -> Iterator[dict[str, int | None]]:
            for page in letters.pages(letters.spans(since_ms=given.filter.since_ms)):
                chosen = [candidate_of(one) for one in page.letters if given.filter.takes(one)]
                yield {one.request_id: one.generation for one in chosen}
                advance(page.read, page.total)

        yield pages()


def _print_discarded(counts: Mapping[str, int], told: Mapping[str, str], *, as_json: bool) -> None:
    left, done = refused(counts), counts.get(TAKEN, 0)
    if as_json:
        words = {"discarded": done, "refused": left, "requests": dict(told)}
        click.echo(json.dumps(words))
        return
    click.echo(f"{done:,} discarded")
    for name, count in left.items():
        click.echo(f"  {count:,} left: {IN_WORDS[Redrivable(name)]}")
    for line in without_letter(told):
        click.echo(line)
