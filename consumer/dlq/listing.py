"""Going through letters: those that are meant, once each, with their states."""

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
    """Knows nothing of any letter: those of others have no row anywhere."""

    def of(self, letters: Sequence[DeadLetter]) -> list[Standing]:
        """Return that each is unknown."""
        return [Standing.UNKNOWN] * len(letters)


class Judged(NamedTuple):
    """A letter that the filter takes, and its state."""

    letter: DeadLetter
    standing: Standing


def judged_letters(
    settings: Settings, given: Given, *, ask_journal: bool, advance: Advance
) -> Iterator[list[Judged]]:
    """Yield the letters that there are now and that are meant, page by page, each once.

    Args:
        ask_journal: whether to ask for their states.
        advance: told how far the reading has come, and how far it is.

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
    """Return the summary of letters.

    Args:
        shown: the standings that are more than counted.
        limit: how many are kept for a list.
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
    """Return which standings are shown: those asked for, else those that are not settled."""
    if given.filter.standings:
        return given.filter.standings
    return frozenset(Standing) if everything else UNSETTLED


def lookup_of(settings: Settings) -> Lookup:
    """Return the journal of the settings, for reading."""
    timeout_s = settings.journal.timeout_s
    return Lookup(settings.journal.url, group=settings.kafka.group, statement_timeout_s=timeout_s)
