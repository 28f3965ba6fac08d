"""Goes through the chosen letters, each once, with the states of their requests."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from itertools import compress
from typing import NamedTuple

from consumer.dlq.letter import Letter
from consumer.dlq.letter_reader import LetterReader, journaled_letters
from consumer.dlq.letter_state import UNSETTLED, LetterStanding, LetterState, LetterStates
from consumer.dlq.options import LetterOptions
from consumer.dlq.tally import LetterTally
from consumer.journal.lookup import Lookup
from feedback.settings.settings import Settings

# SQLite's page cache; more goes to the disk.
CACHE_KIB = 16_384


class SeenNames:
    """Remembers names by their hashes. Belongs to one thread."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("CREATE TABLE seen (name BLOB PRIMARY KEY) WITHOUT ROWID")

    def __enter__(self) -> SeenNames:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __contains__(self, name: str) -> bool:
        select = "SELECT 1 FROM seen WHERE name = ?"
        return self._database.execute(select, (_hash(name),)).fetchone() is not None

    def add(self, names: Iterable[str]) -> list[bool]:
        """Remember names; say of each whether it is new."""
        insert = "INSERT OR IGNORE INTO seen VALUES (?)"
        self._database.execute("BEGIN")
        new = [bool(self._database.execute(insert, (_hash(one),)).rowcount) for one in names]
        self._database.execute("COMMIT")
        return new

    def close(self) -> None:
        """Forget all."""
        self._database.close()


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class SeenLetters:
    """Remembers letters by request and attempts. Belongs to one thread.

    Args:
        group: whose letters count once, however often they were written.
    """

    def __init__(self, group: str) -> None:
        self._group = group
        self._names = SeenNames()

    def __enter__(self) -> SeenLetters:
        return self

    def __exit__(self, *_: object) -> None:
        self._names.close()

    def fresh(self, letters: Iterable[Letter]) -> list[Letter]:
        """Return the letters that are new, and remember them."""
        given = list(letters)
        return list(compress(given, self._names.add(map(self._name, given))))

    def _name(self, letter: Letter) -> str:
        writing = letter.writing_for(self._group)
        return f"{letter.failure.attempts} {writing} {letter.request_id}"


Advance = Callable[[int, int], None]


class JudgedLetter(NamedTuple):
    """A letter that the filter takes, with the state of its request.

    Args:
        ours: see `LetterStanding`.
    """

    letter: Letter
    state: LetterState
    ours: str | None = None


def judged_letters(
    settings: Settings, given: LetterOptions, *, ask_journal: bool, advance: Advance
) -> Iterator[list[JudgedLetter]]:
    """Yield the letters that exist now and match, page by page, each once.

    Raises:
        NotAvailable: Kafka or the journal is away, or a topic does not exist.
    """
    with ExitStack() as stack:
        made = (
            journaled_letters(settings, topics=given.topics, dlqs=given.dlqs)
            if ask_journal
            else LetterReader(settings.kafka, topics=given.topics, dlqs=given.dlqs)
        )
        reader = stack.enter_context(made)
        seen = stack.enter_context(SeenLetters(settings.kafka.group))
        asked = (
            LetterStates(stack.enter_context(Lookup.from_settings(settings)))
            if ask_journal
            else None
        )
        for page in reader.pages(reader.spans(since_ms=given.filter.since_ms)):
            letters = seen.fresh(one for one in page.letters if given.filter.takes(one))
            # The letters of other systems have no row anywhere.
            unknown = LetterStanding(LetterState.UNKNOWN)
            stands = asked.of(letters) if asked else [unknown] * len(letters)
            yield [JudgedLetter(one, *how) for one, how in zip(letters, stands, strict=True)]
            advance(page.read, page.total)


def tally_of(
    pages: Iterator[list[JudgedLetter]], *, shown: Collection[LetterState], limit: int
) -> LetterTally:
    """Return the counts of many letters.

    Args:
        shown: the states that are listed too, not only counted.
    """
    tally = LetterTally(limit)
    for page in pages:
        for letter, state, ours in page:
            if state in shown:
                tally.add(letter, state, ours)
            else:
                tally.pass_over(state)
    return tally


def shown_states(given: LetterOptions, *, everything: bool) -> frozenset[LetterState]:
    """Return the states to list: those asked for, else the unsettled ones."""
    if given.filter.states:
        return given.filter.states
    return frozenset(LetterState) if everything else UNSETTLED
