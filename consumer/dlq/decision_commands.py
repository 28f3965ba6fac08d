"""`onceward-dlq resolve` and `discard`: record the decisions of a person."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import chain

import click

from consumer.dlq.filter import Filter
from consumer.dlq.options import (
    Given,
    by_option,
    filter_options,
    given_with,
    reason_option,
    require_some,
    require_yes,
    stopping_at_signals,
)
from consumer.dlq.reading import LetterReader
from consumer.dlq.redrive.batch_sender import RedriveStatuses, opened_statuses
from consumer.dlq.redrive.commands import without_letter
from consumer.dlq.redrive.progress import NO_LETTER, refused
from consumer.dlq.redrive.record import candidate_of
from consumer.journal.lookup import Lookup
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive_rule import IN_WORDS, Discarded, Redrivable
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
@click.option("--succeeded", is_flag=True, help="Its effect happened.")
@click.option("--failed", is_flag=True, help="Its effect did not happen.")
@click.option("--result", help="JSON: its client gets it, as if the handler had returned it.")
@click.option("--code", help=f"Why it failed, in upper case. Default: {RESOLVED}.")
@reason_option("--because", "--reason", "because", help="How you know.")
@by_option
def resolve(
    config: str | None,
    as_json: bool,
    request_id: str,
    succeeded: bool,
    failed: bool,
    result: str | None,
    code: str | None,
    because: str,
    by: str,
) -> int:
    """End the doubt about a request: the only way for one that is IN_DOUBT.

    Its client is told the outcome. One that failed gets a dead letter, and can then be sent back.

    \b
    Examples:
      onceward-dlq resolve 0198f0c0-… --succeeded --result '{"receipt": 7}' --because "a list"
      onceward-dlq resolve 0198f0c0-… --failed --because "the bank has no such charge"
    """
    check_request_id(request_id)
    if succeeded == failed:
        raise click.UsageError("say --succeeded or --failed, one of them")
    _require_fitting(result, code, has_succeeded=succeeded)
    given = _as_json(result)
    settings = settings_of(config)
    with ExitStack() as stack:
        decisions, statuses = _opened(settings, stack)
        is_done, row = decisions.resolve(
            request_id,
            has_succeeded=succeeded,
            result=given,
            code=None if succeeded else code or RESOLVED,
            reason=because,
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


def _require_fitting(result: str | None, code: str | None, *, has_succeeded: bool) -> None:
    """Return when the options fit the decision.

    Raises:
        UsageError: one of them belongs to the other decision, or is malformed.
    """
    if has_succeeded and code is not None:
        raise click.UsageError("--code belongs to --failed")
    if not has_succeeded and result is not None:
        raise click.UsageError("--result belongs to --succeeded")
    if code is not None and not _CODE.match(code):
        raise click.UsageError("--code: upper case letters, digits and _, like NOT_CHARGED")


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
    decisions = stack.enter_context(closing(Decisions.from_settings(settings)))
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


@dataclass(frozen=True, slots=True)
class DiscardPass:
    """The results of one pass over the failures that are to be discarded.

    Args:
        counts: requests by their results.
        told: the results of requests that were named by their ids.
        is_cut: whether a signal ended it early.
    """

    counts: Mapping[str, int]
    told: Mapping[str, str]
    is_cut: bool

    @property
    def taken(self) -> int:
        """How many were discarded, or would be."""
        return self.counts.get(TAKEN, 0)


@click.command()
@config_option
@json_option
@filter_options
@click.argument("request_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All letters, where no filter is given.")
@reason_option("--because", help="Why nothing is done about it; recorded.")
@click.option("--dry-run", is_flag=True, help="Count the failures; change nothing.")
@click.option("--undo", is_flag=True, help="Take the discard of these ids back.")
@by_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(
    config: str | None,
    as_json: bool,
    given: Given,
    request_ids: tuple[str, ...],
    everything: bool,
    because: str,
    dry_run: bool,
    undo: bool,
    by: str,
    yes: bool,
) -> int:
    """Say that nothing is to be done about failures: their letters are listed no more.

    The requests stay FAILED and their letters stay where they are, but none is sent back any more.
    A request that the journal does not know needs a letter. More than one are counted first, and
    discarded when you say yes. --undo takes it back, as long as nothing else has happened to them.

    \b
    Examples:
      onceward-dlq discard 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11 --because "a test"
      onceward-dlq discard --reason BAD_AMOUNT --until 7d --because "refunded" --dry-run
      onceward-dlq discard 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11 --undo --because "wrong one"
    """
    settings = settings_of(config)
    named = given_with(given, request_ids)
    require_some(named, everything=everything)
    if undo:
        if dry_run or everything or named.filter != Filter(ids=named.filter.ids) or named.dlqs:
            raise click.UsageError("--undo takes ids alone")
        return _undo(settings, named.filter.ids, by=by, because=because, as_json=as_json)
    if dry_run or not (yes or named.is_one_id):
        trial = _discard(settings, named, by=by, because=because, is_trial=True)
        if dry_run or not trial.taken or trial.is_cut:
            return _print_discarded(trial, as_json=as_json, is_trial=True)
        require_yes(f"discard {trial.taken:,} failures ({named.words()})?")
    done = _discard(settings, named, by=by, because=because)
    return _print_discarded(done, as_json=as_json)


def _discard(
    settings: Settings, named: Given, *, by: str, because: str, is_trial: bool = False
) -> DiscardPass:
    ids = named.filter.ids
    only_ids = named.filter == Filter(ids=ids) and not named.dlqs and bool(ids)
    counts: Counter[str] = Counter()
    told: dict[str, str] = {}
    with ExitStack() as stack:
        decisions, _ = _opened(settings, stack)
        stopping = stack.enter_context(stopping_at_signals())
        known = _known(settings, ids) if only_ids else {}
        left = ids - known.keys()
        pages: Iterable[dict[str, int | None]] = [known]
        if not only_ids or left:
            rest = replace(named, filter=replace(named.filter, ids=left))
            pages = chain(pages, stack.enter_context(_chosen(settings, rest)))
        for page in pages:
            results = decisions.discard(page, by=by, reason=because, is_trial=is_trial)
            for request_id, why in results.items():
                counts[TAKEN if why is None else why.value] += 1
                if request_id in ids:
                    told[request_id] = TAKEN if why is None else why.value
            if stopping.is_set():
                break
        is_cut = stopping.is_set()
    if not is_cut:
        told = dict.fromkeys(sorted(ids), NO_LETTER) | told
    return DiscardPass(counts, told, is_cut)


def _undo(settings: Settings, ids: Collection[str], *, by: str, because: str, as_json: bool) -> int:
    with ExitStack() as stack:
        decisions, _ = _opened(settings, stack)
        found = decisions.undo_discard(sorted(ids), by=by, reason=because)
    if as_json:
        click.echo(json.dumps({"requests": {name: what.value for name, what in found.items()}}))
    else:
        for name, what in found.items():
            click.echo(f"{printable(name)}: {_OF_UNDO[what]}")
    is_bad = any(what is not Discarded.UNDONE for what in found.values())
    return int(ExitCode.BAD_ANSWER if is_bad else ExitCode.FINE)


_OF_UNDO = {
    Discarded.UNDONE: "it is open again",
    Discarded.NOT_DISCARDED: "it is not discarded, or something has happened to it since",
    Discarded.REPLACED: "a new request with other values has taken its place",
}

COMMANDS = (resolve, discard)


def _known(settings: Settings, request_ids: Collection[str]) -> dict[str, int | None]:
    """Return the requests that the journal knows: its rows decide over the letters."""
    with Lookup.from_settings(settings) as lookup:
        rows, _ = lookup.rows(request_ids)
    return dict.fromkeys(rows)


@contextmanager
def _chosen(settings: Settings, given: Given) -> Iterator[Iterator[dict[str, int | None]]]:
    """Yield pages of the chosen letters' requests, each with the time of its failure."""
    with (
        LetterReader(settings.kafka, topics=given.topics, dlqs=given.dlqs) as letters,
        progress_bar("discarding") as advance,
    ):

        def pages() -> Iterator[dict[str, int | None]]:
            for page in letters.pages(letters.spans(since_ms=given.filter.since_ms)):
                chosen = [candidate_of(one) for one in page.letters if given.filter.takes(one)]
                yield {one.request_id: one.generation for one in chosen}
                advance(page.read, page.total)

        yield pages()


def _print_discarded(done: DiscardPass, *, as_json: bool, is_trial: bool = False) -> int:
    """Print the results and return the command's exit code."""
    left = refused(done.counts)
    if as_json:
        word = "would_discard" if is_trial else "discarded"
        click.echo(json.dumps({word: done.taken, "refused": left, "requests": dict(done.told)}))
    else:
        would = " would be" if is_trial else ""
        click.echo(f"{done.taken:,}{would} discarded{'; nothing was changed' if is_trial else ''}")
        for name, count in left.items():
            click.echo(f"  {count:,} left: {IN_WORDS[Redrivable(name)]}")
        for line in without_letter(done.told):
            click.echo(line)
    if done.is_cut:
        return int(ExitCode.CUT)
    is_bad = any(what != TAKEN for what in done.told.values())
    return int(ExitCode.BAD_ANSWER if is_bad else ExitCode.FINE)
