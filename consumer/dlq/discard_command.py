"""`onceward-dlq discard`: close cases, and open them again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import click

from consumer.dlq.filter import LetterFilter
from consumer.dlq.letter import Letter
from consumer.dlq.letter_reader import journaled_letters
from consumer.dlq.listing import SeenNames
from consumer.dlq.options import (
    DISCARD_AGAIN_WORDS,
    LetterOptions,
    by_option,
    choosing_options,
    given_with,
    reason_option,
    require_some,
    require_yes,
    stopping_at_signals,
)
from consumer.dlq.redrive.endings import without_letter
from consumer.dlq.redrive.loop import RedrivePace
from consumer.dlq.redrive.progress import NO_LETTER, refusal_counts
from consumer.dlq.redrive.record import candidate_of, mark_of
from consumer.dlq.resolve_command import opened_decisions
from consumer.dlq.since_words import since_words
from consumer.dlq.unfinished import unfinished_json, unfinished_lines, unfinished_of
from consumer.journal.lookup import Lookup
from consumer.journal.redrive.redrive_rule import (
    IN_WORDS,
    DiscardVerdict,
    Redrivable,
    RedriveCandidate,
    shown_generation,
)
from feedback.console.commands import config_option, json_option, settings_of
from feedback.console.contradictions import refuse_beside_all
from feedback.console.printable import printable
from feedback.console.progress import progress_bar
from feedback.console.source import say_source
from feedback.errors import ExitCode
from feedback.kafka.scan import OffsetSpans
from feedback.settings.settings import Settings

TAKEN = "taken"


class JudgedFailure(NamedTuple):
    """A failure that the journal has, and the result for it."""

    candidate: RedriveCandidate
    result: str


@dataclass(frozen=True, slots=True)
class DiscardPass:
    """The results of one pass over the failures that are to be discarded.

    Args:
        counts: requests by their results.
        told: the results of requests that were named by their ids.
        is_cut: whether a signal ended it early.
        seen: the spans of the letters that were looked at; None: only the journal was.
        marks: the sum of `mark_of` of those that were taken.
        known: of those that were named by their ids, the requests that the journal has.
    """

    counts: Mapping[str, int]
    told: Mapping[str, str]
    is_cut: bool
    seen: OffsetSpans | None
    marks: int = 0
    known: Sequence[JudgedFailure] = ()

    @property
    def taken(self) -> int:
        """How many were discarded, or would be."""
        return self.counts.get(TAKEN, 0)


@click.command()
@config_option
@json_option
@choosing_options
@reason_option("--because", help="Why nothing is done about it; recorded.")
@click.option("--dry-run", is_flag=True, help="Count the failures; change nothing.")
@click.option("--undo", is_flag=True, help="Take the discard of these ids back.")
@click.option("--seen", help="With --undo: only the discard that `show` has named so.")
@click.option(
    "--again",
    is_flag=True,
    help=DISCARD_AGAIN_WORDS,
)
@by_option
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(
    config: str | None,
    as_json: bool,
    given: LetterOptions,
    request_ids: tuple[str, ...],
    everything: bool,
    because: str,
    dry_run: bool,
    undo: bool,
    seen: str | None,
    again: bool,
    by: str,
    yes: bool,
) -> int:
    """Say that nothing is to be done about failures: their letters are listed no more.

    The requests stay FAILED and their letters stay where they are, but none is sent back any more.
    A request that the journal does not know needs a letter. More than one are counted first, and
    discarded when you say yes. --undo takes it back, as long as nothing else has happened to them;
    with --seen only the discard that you have looked at, and none that came since.
    A letter of another system (--dlq) is discarded for itself, whatever this group has done with
    the same record; --undo --dlq takes that back.

    \b
    Examples:
      onceward-dlq discard 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11 --because "a test"
      onceward-dlq discard --reason BAD_AMOUNT --until 7d --because "refunded" --dry-run
      onceward-dlq discard 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11 --undo --because "wrong one"
    """
    refuse_beside_all("--undo", but=_OF_UNDOING)
    named = given_with(given, request_ids)
    # The topic alone names no discard.
    require_some(replace(named, dlqs=frozenset()) if undo else named, everything=everything)
    if seen is not None and not (undo and len(named.filter.ids) == 1):
        raise click.UsageError("--seen is of the discard of one request: give --undo and one id")
    settings = settings_of(config)
    if undo:
        undone = undo_discard(
            settings,
            named.filter.ids,
            by=by,
            because=because,
            is_theirs=bool(named.dlqs),
            seen=seen,
        )
        say_source(settings, as_json=as_json)
        return _print_undone(settings, undone, as_json=as_json, config=config, seen=seen)

    def discarding(*, is_trial: bool = False, seen: DiscardPass | None = None) -> DiscardPass:
        with progress_bar("discarding") as advance, stopping_at_signals() as stopping:
            return discard_letters(
                settings,
                named,
                by=by,
                because=because,
                takes_sent=again,
                pace=RedrivePace(stopping=stopping, on_progress=advance),
                is_trial=is_trial,
                # What fails after the question is none of its answer.
                within=None if seen is None else seen.seen,
                known=None if seen is None else seen.known,
            )

    trial = None
    if dry_run or not (yes or named.is_one_id):
        trial = discarding(is_trial=True)
        if dry_run or not trial.taken or trial.is_cut:
            say_source(settings, as_json=as_json)
            return _print_discarded(trial, as_json=as_json, is_trial=True)
        say_source(settings)
        require_yes(f"discard {trial.taken:,} failures ({named.words()})?")
    done = discarding(seen=trial)
    say_source(settings, as_json=as_json)
    return _print_discarded(done, as_json=as_json)


def discard_letters(
    settings: Settings,
    named: LetterOptions,
    *,
    by: str,
    because: str,
    pace: RedrivePace,
    takes_sent: bool = False,
    is_trial: bool = False,
    within: OffsetSpans | None = None,
    known: Sequence[JudgedFailure] | None = None,
) -> DiscardPass:
    """Discard the chosen failures, page by page.

    If the process dies, those of the pages before are discarded and the others open.

    Args:
        takes_sent: see `PersonDecisions.discard`.
        is_trial: count them, and change nothing.
        within: only letters in these spans: those that a person was asked about.
        known: likewise, of those that are named by their ids, the requests that the journal had:
            of these only those that were counted are judged once more.
    """
    ids = named.filter.ids
    only_ids = named.filter == LetterFilter(ids=ids) and not named.dlqs and bool(ids)
    counts: Counter[str] = Counter()
    told: dict[str, str] = {}
    marks = 0
    with ExitStack() as stack:
        decisions, _ = opened_decisions(settings, stack)
        taken = stack.enter_context(SeenNames())
        if known is None:
            known = _known(settings, ids) if only_ids else []
        left = ids - {one.candidate.request_id for one in known}
        pages: Iterable[Sequence[RedriveCandidate]] = [
            [one.candidate for one in known if one.result == TAKEN]
        ]
        for one in known:
            if one.result != TAKEN:
                counts[one.result] += 1
                told[one.candidate.request_id] = one.result
        if not only_ids or left:
            rest = replace(named, filter=replace(named.filter, ids=left))
            within, letters = stack.enter_context(_chosen(settings, rest, within, pace))
            pages = chain(pages, letters)
        for page in pages:
            # Of most pages a filter takes nothing: an act would connect for it.
            results: list[Redrivable | None] = []
            if page:
                results = decisions.discard(
                    page, by=by, reason=because, is_trial=is_trial, takes_sent=takes_sent
                )
            for letter, why in zip(page, results, strict=True):
                # Of two letters of a request on two pages the first counts, in a trial too.
                if why is None and not taken.add([letter.request_id])[0]:
                    why = Redrivable.DOUBLE
                result = TAKEN if why is None else why.value
                counts[result] += 1
                marks += mark_of(letter) if why is None else 0
                if letter.request_id in ids and told.get(letter.request_id) != TAKEN:
                    told[letter.request_id] = result
            if pace.stopping.is_set():
                break
        is_cut = pace.stopping.is_set()
    # Their results are told above, and no letter of theirs is looked for.
    known = [one._replace(result=told[one.candidate.request_id]) for one in known]
    if not is_cut:
        told = dict.fromkeys(sorted(ids), NO_LETTER) | told
    return DiscardPass(counts, told, is_cut, within, marks, known)


def undo_discard(
    settings: Settings,
    ids: Collection[str],
    *,
    by: str,
    because: str,
    is_theirs: bool = False,
    seen: str | None = None,
) -> dict[str, DiscardVerdict]:
    """Take the discards of requests back; return the result of each.

    Args:
        is_theirs: those of letters of other systems.
        seen: the stamp of the discard that is meant; None: whichever stands.
    """
    with ExitStack() as stack:
        decisions, _ = opened_decisions(settings, stack)
        return decisions.undo_discard(
            sorted(ids), by=by, reason=because, is_beside=is_theirs, seen=seen
        )


def undone_words(
    settings: Settings, request_id: str, found: DiscardVerdict, *, seen: str | None
) -> str:
    """Return the result of an undo in words; with what was done since the discard that was seen."""
    words, since = UNDONE_WORDS[found], ""
    if seen is not None and found is not DiscardVerdict.UNDONE:
        with Lookup.from_settings(settings) as lookup:
            since = since_words(lookup.actions([request_id]).get(request_id, ()), seen)
    return f"{request_id}: {words}{since and f'; {since}'}"


def _print_undone(
    settings: Settings,
    found: Mapping[str, DiscardVerdict],
    *,
    as_json: bool,
    config: str | None,
    seen: str | None,
) -> int:
    """Print the results and return the command's exit code."""
    replaced = [name for name, what in found.items() if what is DiscardVerdict.REPLACED]
    redrives = [
        one
        for one in (unfinished_of(settings) if replaced else [])
        if not one.requests.isdisjoint(replaced)
    ]
    if as_json:
        results = {name: what.value for name, what in found.items()}
        unfinished = [unfinished_json(one) for one in redrives]
        click.echo(json.dumps({"requests": results, "unfinished_redrives": unfinished}))
    else:
        for name, what in found.items():
            click.echo(printable(undone_words(settings, name, what, seen=seen)))
        for line in unfinished_lines(redrives, config=config):
            click.echo(line)
    is_bad = any(what is not DiscardVerdict.UNDONE for what in found.values())
    return int(ExitCode.BAD_ANSWER if is_bad else ExitCode.FINE)


UNDONE_WORDS = {
    DiscardVerdict.UNDONE: "it is open again",
    DiscardVerdict.NOT_DISCARDED: "it is not discarded, or something has happened to it since",
    DiscardVerdict.ANOTHER: "the discard that you saw is not the one that stands now",
    DiscardVerdict.REPLACED: "a new request with other values takes its place",
}


def _known(settings: Settings, request_ids: Collection[str]) -> list[JudgedFailure]:
    """Return the requests that the journal knows, all to be judged: its rows decide over letters.

    One that fails again before it is discarded is left: nobody has seen that failure.
    """
    with Lookup.from_settings(settings) as lookup:
        rows, _ = lookup.rows(request_ids)
    return [
        JudgedFailure(RedriveCandidate(name, shown_generation(row), row.payload_sha256, 0), TAKEN)
        for name, row in rows.items()
    ]


@contextmanager
def _chosen(
    settings: Settings, given: LetterOptions, within: OffsetSpans | None, pace: RedrivePace
) -> Iterator[tuple[OffsetSpans, Iterator[list[RedriveCandidate]]]]:
    """Yield the spans that are read, and the chosen letters in them, page by page."""
    with journaled_letters(settings, topics=given.topics, dlqs=given.dlqs) as letters:
        spans = letters.spans(since_ms=given.filter.since_ms) if within is None else within

        def pages() -> Iterator[list[RedriveCandidate]]:
            for page in letters.pages(spans):
                taken = [one for one in page.letters if given.filter.takes(one)]
                yield [_discardable(one, settings.kafka.group) for one in taken]
                pace.on_progress(page.read, page.total)

        yield spans, pages()


def _discardable(letter: Letter, group: str) -> RedriveCandidate:
    elsewhere_at = None if letter.is_of(group) else letter.failed_at
    return candidate_of(letter)._replace(elsewhere_at=elsewhere_at)


def _print_discarded(done: DiscardPass, *, as_json: bool, is_trial: bool = False) -> int:
    """Print the results and return the command's exit code."""
    left = refusal_counts(done.counts)
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


COMMANDS = (discard,)
_OF_UNDOING = (
    *("REQUEST_IDS", "--id", "--dlq", "--seen", "--config", "--json", "--by", "--because", "--yes"),
)
