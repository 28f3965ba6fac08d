"""The group's dead letters as they were a moment ago.

Kafka has no index: to count letters is to read them all, which takes a second for 20,000. So a
thread reads them when somebody looks and the last reading is old, and pages show that one with its
time. It rests twenty times as long as it has read, so that workers keep their processors.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass

from consumer.console.facts import Known, read
from consumer.dlq.filter import Filter
from consumer.dlq.letter_state import UNSETTLED
from consumer.dlq.list_hints import ListHints, hints_of
from consumer.dlq.listing import judged_letters, tally_of
from consumer.dlq.options import Given
from consumer.dlq.tally import Tally
from feedback.clock import epoch_ms, monotonic_s
from feedback.settings.settings import Settings

ALL = Given(Filter(), topics=frozenset(), dlqs=frozenset())
# The newest that are listed; all are counted.
LISTED = 200
OLD_S = 10.0
RESTS = 20
FIRST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class Board:
    """One reading.

    Attributes:
        tally: of the letters that may need a decision.
        at: when it was begun.
        seconds: how long it took.
    """

    tally: Tally
    hints: ListHints
    at: int
    seconds: float


class LetterBoard:
    """Reads the dead letters of one group; any thread may call it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onceward-letters")
        self._last: Known[Board] | None = None
        self._old_at_s = 0.0
        self._under_way: Future[None] | None = None

    def look(self, *, wait_s: float = FIRST_WAIT_S) -> Known[Board]:
        """Return the last reading; begin a new one where that is old.

        Args:
            wait_s: for so long it waits for the first reading, or for one after a fault.
        """
        with self._lock:
            last = self._last
            is_old = last is None or monotonic_s() > self._old_at_s
            if is_old and (self._under_way is None or self._under_way.done()):
                self._under_way = self._thread.submit(self._read)
            under_way = self._under_way
        if under_way is None or (last is not None and not last.why):
            return last or _BEGUN
        try:
            under_way.result(wait_s)
        except NotInTime:
            return last or _BEGUN
        return self._last or _BEGUN

    def close(self) -> None:
        """Begin no further reading."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _read(self) -> None:
        found = read(self._board)
        with self._lock:
            read_s = found.value.seconds if found.value else 0.0
            self._last, self._old_at_s = found, monotonic_s() + max(OLD_S, RESTS * read_s)

    def _board(self) -> Board:
        at, begun_s = epoch_ms(), monotonic_s()
        pages = judged_letters(
            self._settings, ALL, ask_journal=True, advance=lambda read, total: None
        )
        tally = tally_of(pages, shown=UNSETTLED, limit=LISTED)
        hints = hints_of(self._settings, tally, asks_doubts=True)
        return Board(tally, hints, at, monotonic_s() - begun_s)


_BEGUN: Known[Board] = Known(None, "the dead letters are being read: look again in a moment")
