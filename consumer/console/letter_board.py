"""The dead letters of the group, or of another system's topic, as they were a moment ago.

A thread reads them when somebody looks and the last reading is old, and pages show that one and its
time. It rests twenty times as long as it has read, so that workers keep their processors, and half
a minute at most: one slow answer of Kafka would hide new letters for minutes.

The page Now wants a number alone. The view of a choice is looked up when somebody opens its page,
and kept for as long as no letter changes; that of all letters by the thread, where somebody has
opened their page since the last reading.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass, field, replace
from typing import TypeVar

from consumer.console.facts import ReadFact, read_fact
from consumer.console.letter_choice import EVERYTHING, LetterChoice
from consumer.console.letter_index import IndexedLetter, LetterIndex, LetterView
from consumer.dlq.letter_reader import journaled_letters
from consumer.dlq.letter_state import LetterStanding, LetterState, LetterStates
from consumer.dlq.list_hints import asked_anew
from consumer.dlq.unfinished import unfinished_of
from consumer.journal.lookup import Lookup
from consumer.journal.redrive.later_requests import NamedLater
from consumer.journal.redrive.reopening import UnfinishedRedrive
from feedback.clock import epoch_ms, monotonic_s
from feedback.settings.settings import Settings

K = TypeVar("K")
T = TypeVar("T")
# The newest that are listed; all are counted.
LISTED = 200
BARS = 60
OLD_S = 10.0
RESTS = 20
MOST_REST_S = 30.0
FIRST_WAIT_S = 5.0
# A reading that is older may miss later failures.
MOST_AGE_S = 60.0
MOST_VIEWS = 10


@dataclass(frozen=True, slots=True)
class OpenLetters:
    """All letters of one reading.

    Attributes:
        shown: how many may need a decision.
        at: when the reading was begun.
        age_s: how long ago that was.
    """

    shown: int
    unfinished: list[UnfinishedRedrive]
    at: int
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ChosenLetters:
    """The letters of one reading that are chosen.

    Attributes:
        later: the requests after the open letters that are listed.
        at: when the reading was begun.
    """

    view: LetterView
    later: ReadFact[NamedLater]
    unfinished: list[UnfinishedRedrive]
    at: int


@dataclass(frozen=True, slots=True)
class _Refresh:
    letters: OpenLetters
    begun_s: float
    # Of the index, whose letters have not changed between two readings with the same one.
    version: int
    # Counting 100,000 letters takes half a second, and so may the look for later requests of the
    # same keys. The page says when it was.
    views: dict[LetterChoice, LetterView] = field(default_factory=dict)
    # By the open letters that are listed.
    later: dict[tuple[str, ...], ReadFact[NamedLater]] = field(default_factory=dict)


class LetterBoards:
    """A board of the group's own letters, and one of each topic of `[console]`.

    Any thread may call it.
    """

    def __init__(self, settings: Settings) -> None:
        topics = ("", *settings.console.dead_letter_topics)
        self._boards = {dlq: LetterBoard(settings, dlq) for dlq in topics}

    def look(self, choice: LetterChoice = EVERYTHING) -> ReadFact[ChosenLetters]:
        """Return the letters of a choice, whose topic the settings name; see `LetterBoard`."""
        return self._boards[choice.dlq].look(choice)

    def count(self, dlq: str = "") -> ReadFact[OpenLetters]:
        """Return how many letters of a topic may need a decision; see `LetterBoard`."""
        return self._boards[dlq].count()

    def close(self) -> None:
        """Begin no further reading."""
        for one in self._boards.values():
            one.close()


class LetterBoard:
    """Reads dead letters; any thread may call it.

    Args:
        dlq: a dead letter topic of another system; empty for the group's own.
    """

    def __init__(self, settings: Settings, dlq: str = "") -> None:
        self._settings = settings
        self._dlqs = frozenset(filter(None, [dlq]))
        self._all = LetterChoice(dlq=dlq)
        self._index = LetterIndex(settings.kafka.group)
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onceward-letters")
        self._last: ReadFact[_Refresh] | None = None
        self._old_at_s = self._stale_at_s = 0.0
        self._under_way: Future[None] | None = None
        # Whether somebody has opened the page of all since the last reading.
        self._is_opened = False

    def count(self) -> ReadFact[OpenLetters]:
        """Return how many letters may need a decision by the last reading; see `look`."""
        last = self._refreshed()
        if last.value is None:
            return ReadFact(None, last.why)
        age_s = monotonic_s() - last.value.begun_s
        return ReadFact(replace(last.value.letters, age_s=age_s))

    def look(self, choice: LetterChoice = EVERYTHING) -> ReadFact[ChosenLetters]:
        """Return the letters of the last reading; begin a new one where that is old.

        It waits `FIRST_WAIT_S` at most for the first reading, for one after a fault, and where
        nobody has looked for long: what was true last night is not shown this morning.
        """
        last = self._refreshed()
        if last.value is None:
            return ReadFact(None, last.why)
        letters = last.value.letters
        self._is_opened |= choice == self._all
        view, later = self._chosen(last.value, choice)
        return ReadFact(ChosenLetters(view, later, letters.unfinished, letters.at))

    def close(self) -> None:
        """Begin no further reading; one at work ends with the process."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _chosen(
        self, done: _Refresh, choice: LetterChoice
    ) -> tuple[LetterView, ReadFact[NamedLater]]:
        view = done.views.get(choice)
        if view is None:
            view = self._index.view(choice, most=LISTED, bars=BARS)
        open_ones = tuple(one.request_id for one in view.newest if _is_open_here(one))
        later = done.later.get(open_ones)
        if later is None:
            later = read_fact(lambda: asked_anew(self._settings, open_ones))
        with self._lock:
            _keep(done.views, choice, view)
            if not later.why:
                _keep(done.later, open_ones, later)
        return view, later

    def _refreshed(self) -> ReadFact[_Refresh]:
        with self._lock:
            self._require_no_fault()
            last = self._last
            is_old = last is None or monotonic_s() > self._old_at_s
            if is_old and (self._under_way is None or self._under_way.done()):
                self._under_way = self._thread.submit(self._read)
            under_way, is_stale = self._under_way, monotonic_s() > self._stale_at_s
        if under_way is None or (last is not None and not (last.why or is_stale)):
            return last or _BEGUN
        try:
            under_way.result(FIRST_WAIT_S)
        except NotInTime:
            return last if last is not None and last.why else _BEGUN
        return self._last or _BEGUN

    def _require_no_fault(self) -> None:
        """Raise a fault of ours in the last reading, which no older one may stand in for."""
        ended = self._under_way
        if ended is not None and ended.done() and ended.exception() is not None:
            self._last = self._under_way = None
            ended.result()

    def _read(self) -> None:
        begun_s = monotonic_s()
        found = read_fact(self._refresh)
        with self._lock:
            now_s = monotonic_s()
            read_s = now_s - begun_s if found.value else 0.0
            rest_s = max(OLD_S, min(RESTS * read_s, MOST_REST_S))
            self._last, self._old_at_s = found, now_s + rest_s
            # Who looks seldom waits for the next reading, and is not told that this one is too old.
            self._stale_at_s = min(self._old_at_s + rest_s, begun_s + MOST_AGE_S)

    def _refresh(self) -> _Refresh:
        at, begun_s = epoch_ms(), monotonic_s()
        with (
            journaled_letters(self._settings, dlqs=self._dlqs) as reader,
            Lookup.from_settings(self._settings) as lookup,
        ):
            self._index.refresh(reader, LetterStates(lookup))
        letters = OpenLetters(self._index.count(), unfinished_of(self._settings), at)
        done = _Refresh(letters, begun_s, self._index.version)
        before = self._last.value if self._last is not None else None
        if before is not None and before.version == done.version:
            with self._lock:
                done.views.update(before.views)
        is_opened, self._is_opened = self._is_opened, False
        if is_opened:
            self._chosen(done, self._all)
        return done


def _keep(kept: dict[K, T], key: K, found: T) -> None:
    """Keep a finding as the newest of `MOST_VIEWS`."""
    kept.pop(key, None)
    kept[key] = found
    while len(kept) > MOST_VIEWS:
        del kept[next(iter(kept))]


def _is_open_here(one: IndexedLetter) -> bool:
    return LetterStanding(LetterState(one.state), one.ours).is_open_here


_BEGUN: ReadFact[_Refresh] = ReadFact(
    None, "the dead letters are being read: look again in a moment"
)
