"""The counts of many letters, gathered one by one in memory that does not grow. Pure."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from consumer.dlq.letter import Dialect, Failure, Letter
from consumer.dlq.letter_state import LetterState

# The units in which people count time; beyond them, each step is twice as long.
_STEPS_MS = tuple(
    minutes * 60_000 for minutes in (1, 5, 15, 30, 60, 180, 360, 720, 1440, 7 * 1440, 28 * 1440)
)
# How many steps are counted separately: memory stays the same however long the time is.
MOST_KEPT = 1000
# Anybody can write reasons: beyond so many different ones they are counted together.
MOST_NAMES = 1000
# Of a list, in time.
BARS = 24
OTHERS = "(others)"
NONE = "(none)"


class HistogramBar(NamedTuple):
    """The count from `begin_ms` on, for `step_ms`."""

    begin_ms: int
    step_ms: int
    letters: int


class Histogram:
    """Counts points in time."""

    def __init__(self) -> None:
        self._step_ms = _STEPS_MS[0]
        self._counts: dict[int, int] = {}

    def add(self, at_ms: int, count: int = 1) -> None:
        """Count so many more at this epoch ms."""
        step = at_ms // self._step_ms
        self._counts[step] = self._counts.get(step, 0) + count
        while len(self._counts) > MOST_KEPT:
            self._widen()

    def bars(self, most: int) -> list[HistogramBar]:
        """Return the counts from the first step to the last, with the empty ones between.

        Args:
            most: so many bars at most, at least 2.
        """
        if not self._counts:
            return []
        while max(self._counts) - min(self._counts) >= most:
            self._widen()
        steps = range(min(self._counts), max(self._counts) + 1)
        return [
            HistogramBar(step * self._step_ms, self._step_ms, self._counts.get(step, 0))
            for step in steps
        ]

    def _widen(self) -> None:
        longer = [step for step in _STEPS_MS if step > self._step_ms]
        wider = longer[0] if longer else 2 * self._step_ms
        counts: dict[int, int] = {}
        for step, count in self._counts.items():
            # Every step is a multiple of the smaller ones, so that a whole step goes into one.
            place = step * self._step_ms // wider
            counts[place] = counts.get(place, 0) + count
        self._step_ms, self._counts = wider, counts


class ListedLetter(NamedTuple):
    """A letter without its possibly large parts: key, value, headers and stack."""

    failed_at: int
    # Breaks ties of `failed_at`: how many letters had been counted before.
    met: int
    request_id: str
    state: LetterState
    dialect: Dialect
    topic: str
    place: tuple[str, int, int, int]
    failure: Failure
    # Of this group's row, where the letter is of another system.
    ours: str | None = None


_CHANGING = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9a-fA-F]{16,}|[0-9]+")
# Of a message so many characters count.
KIND_LIMIT = 120


def message_kind(message: str | None) -> str | None:
    """Return a message to count by: ids and numbers are `#`, and only its beginning counts.

    >>> message_kind("charge 17 of 0198f0c0-7c3e-7b1e-9d3a-2f6c1f0e8a11: no answer in 2.5 s")
    'charge # of #: no answer in #.# s'
    """
    # Cut twice: an id at the end may be long.
    return message and _CHANGING.sub("#", message[: 4 * KIND_LIMIT])[:KIND_LIMIT]


class NameCounts:
    """Counts names; when there are too many, new ones together as others."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, name: str | None) -> None:
        """Count a name once more."""
        name = name or NONE
        if name not in self.counts and len(self.counts) >= MOST_NAMES:
            name = OTHERS
        self.counts[name] += 1

    def most_common(self) -> list[tuple[str, int]]:
        """Return names and counts, the largest first; equal ones by name."""
        return sorted(self.counts.items(), key=lambda one: (-one[1], one[0]))


@dataclass(slots=True)
class LetterTally:
    """The counts, and the newest letters.

    Attributes:
        states: of all letters that the filter takes, listed or not.
        shown: how many are listed; the other counts are of these only.
    """

    limit: int
    states: Counter[LetterState] = field(default_factory=Counter)
    shown: int = 0
    reasons: NameCounts = field(default_factory=NameCounts)
    codes: NameCounts = field(default_factory=NameCounts)
    classes: NameCounts = field(default_factory=NameCounts)
    messages: NameCounts = field(default_factory=NameCounts)
    topics: NameCounts = field(default_factory=NameCounts)
    dialects: NameCounts = field(default_factory=NameCounts)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    times: Histogram = field(default_factory=Histogram)
    _newest: list[ListedLetter] = field(default_factory=list)

    def pass_over(self, state: LetterState) -> None:
        """Count a letter that is not listed."""
        self.states[state] += 1

    def add(self, letter: Letter, state: LetterState, ours: str | None = None) -> None:
        """Count a letter that is listed; `ours` is that of `LetterStanding`."""
        failure, failed_at = letter.failure, letter.failed_at
        self.states[state] += 1
        self.shown += 1
        self.reasons.add(failure.reason)
        self.codes.add(failure.code)
        self.classes.add(failure.exception_class)
        self.messages.add(message_kind(failure.exception_message))
        self.topics.add(letter.topic)
        self.dialects.add(letter.dialect)
        self.oldest_ms = failed_at if self.oldest_ms is None else min(failed_at, self.oldest_ms)
        self.newest_ms = failed_at if self.newest_ms is None else max(failed_at, self.newest_ms)
        self.times.add(failed_at)
        if self.limit:
            self._keep(letter, state, ours)

    def newest(self) -> list[ListedLetter]:
        """Return the newest letters, the newest of them first."""
        return sorted(self._newest, reverse=True)

    def _keep(self, letter: Letter, state: LetterState, ours: str | None) -> None:
        listed = (letter.failed_at, self.shown)
        if len(self._newest) >= self.limit and listed < self._newest[0][:2]:
            return
        record = letter.record
        one = ListedLetter(
            *listed,
            letter.request_id,
            state,
            letter.dialect,
            letter.topic,
            (record.topic, record.partition, record.offset, record.timestamp_ms),
            letter.failure._replace(stack=None),
            ours,
        )
        if len(self._newest) < self.limit:
            heapq.heappush(self._newest, one)
        else:
            heapq.heappushpop(self._newest, one)
