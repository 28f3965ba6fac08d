"""`onceward-dlq discard`: a person closes the cases of failures."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import chain

import click

from consumer.dlq.acting_options import (
    by_option,
    given_with,
    reason_option,
    require_some,
    require_yes,
    stopping_at_signals,
)
from consumer.dlq.deciding_commands import opened
from consumer.dlq.listing import lookup_of
from consumer.dlq.options import Given, filter_options_as
from consumer.dlq.reading import DeadLetters
from consumer.dlq.redrive.commands import without_letter
from consumer.dlq.redrive.progress import NO_LETTER, refused
from consumer.dlq.redrive.record import candidate_of
from consumer.journal.redrive_rule import IN_WORDS, Redrivable
from feedback.console.commands import config_option, json_option, settings_of
from feedback.console.progress import progress_bar
from feedback.errors import ExitCode
from feedback.settings.settings import Settings

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
        decisions, _ = opened(settings, stack)
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


COMMANDS = (discard,)


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
