"""Goes through the chosen letters, each once, with the states of their requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple, Protocol

from consumer.dlq.letter import DeadLetter
from consumer.dlq.options import Given
from consumer.dlq.reading import DeadLetters
from consumer.dlq.seen import Seen
from consumer.dlq.standing import UNSETTLED, Standing, Standings
from consumer.dlq.tally import Tally
from consumer.journal.lookup import Lookup
from feedback.settings.settings import Settings

Advance = Callable[[int, int], None]


class Judge(Protocol):
    """Finds the states of the requests behind letters."""

    def of(self, letters: Sequence[DeadLetter]) -> list[Standing]: ...


class NoJournal:
    """Knows no letter: those of other systems have no row anywhere."""

    def of(self, letters: Sequence[DeadLetter]) -> list[Standing]:
        """Return UNKNOWN for each."""
        return [Standing.UNKNOWN] * len(letters)


class Judged(NamedTuple):
    """A letter that the filter takes, with the state of its request."""

    letter: DeadLetter
    standing: Standing


def judged_letters(
    settings: Settings, given: Given, *, ask_journal: bool, advance: Advance
) -> Iterator[list[Judged]]:
    """Yield the letters that exist now and match, page by page, each once.

    Args:
        ask_journal: whether to ask the journal for the states of their requests.
        advance: called with the number of records read, and their total.

    Raises:
        NotAvailable: Kafka or the journal is away, or a topic does not exist.
    """
    with ExitStack() as stack:
        reader = stack.enter_context(
            DeadLetters(settings.kafka, topics=given.topics, dlqs=given.dlqs)
        )
        seen = stack.enter_context(Seen())
        judge: Judge = NoJournal()
        if ask_journal:
            judge = Standings(stack.enter_context(lookup_of(settings)))
        for page in reader.pages(reader.spans(since_ms=given.filter.since_ms)):
            letters = seen.fresh(one for one in page.letters if given.filter.takes(one))
            standings = judge.of(letters)
            yield [Judged(*one) for one in zip(letters, standings, strict=True)]
            advance(page.read, page.total)


def tally_of(pages: Iterator[list[Judged]], *, shown: Collection[Standing], limit: int) -> Tally:
    """Return the counts of many letters.

    Args:
        shown: the standings that are listed too, not only counted.
        limit: how many letters are stored for the list.
    """
    tally = Tally(limit)
    for page in pages:
        for letter, standing in page:
            if standing in shown:
                tally.add(letter, standing)
            else:
                tally.pass_over(standing)
    return tally


def shown_standings(given: Given, *, everything: bool) -> frozenset[Standing]:
    """Return the standings to list: those asked for, else the unsettled ones."""
    if given.filter.standings:
        return given.filter.standings
    return frozenset(Standing) if everything else UNSETTLED


def lookup_of(settings: Settings) -> Lookup:
    """Return the journal of the settings, for reading."""
    timeout_s = settings.journal.timeout_s
    return Lookup(settings.journal.url, group=settings.kafka.group, statement_timeout_s=timeout_s)
