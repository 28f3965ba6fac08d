"""What a caller does upon a word, and the requests that are due to be made because of one.

A caller wants its order done once. What it was told did not happen it asks for again under another
id, so that whatever runs after all is a second charge; where nobody could say, it keeps to the id.
"""

from __future__ import annotations

import heapq
import threading
from enum import StrEnum
from itertools import count

from feedback.clock import monotonic_s
from feedback.status import State
from tests.chaos.orders import Order

# Ids for one order: when it fails, and when it cannot even be sent.
MOST_AFTER_END = 3
MOST_AFTER_NOT_SENT = 12
PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0


class Word(StrEnum):
    """What `send` says when it does not return."""

    NOT_SENT = "NotSent"
    SEND_UNKNOWN = "SendUnknown"


class Then(StrEnum):
    """What a caller does next."""

    WAIT = "wait"
    SAME_ID = "same id"
    NEW_ID = "new id"


def then_after(word: Word | State, *, asked: int) -> Then:
    """Return what a caller does that was told this of a request.

    Args:
        asked: for how many ids its order was asked so far.

    >>> then_after(State.FAILED, asked=1).value, then_after(State.FAILED, asked=3).value
    ('new id', 'wait')
    >>> then_after(Word.SEND_UNKNOWN, asked=1).value, then_after(State.IN_DOUBT, asked=1).value
    ('same id', 'wait')
    """
    match word:
        case Word.SEND_UNKNOWN | State.LOST | State.UNKNOWN:
            return Then.SAME_ID
        case Word.NOT_SENT if asked < MOST_AFTER_NOT_SENT:
            return Then.NEW_ID
        case State.FAILED | State.EXPIRED if asked < MOST_AFTER_END:
            return Then.NEW_ID
        case _:
            return Then.WAIT


def pause_s(asked: int) -> float:
    """Return how long a caller waits before it asks again.

    >>> [pause_s(asked) for asked in (1, 2, 3, 9)]
    [0.5, 1.0, 2.0, 8.0]
    """
    return min(LONGEST_PAUSE_S, PAUSE_S * 2.0 ** (asked - 1))


class Due:
    """Orders that are to be asked for again, each at its time. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, Order]] = []
        self._numbers = count()
        self._taken = 0

    def __len__(self) -> int:
        """How many were not asked for yet, those of a `take` that is not `done` included."""
        return len(self._heap) + self._taken

    def add(self, order: Order, *, after_s: float) -> None:
        """Have it asked for as it is so many seconds from now."""
        with self._lock:
            heapq.heappush(self._heap, (monotonic_s() + after_s, next(self._numbers), order))

    def take(self, most: int) -> list[Order]:
        """Return those that are due now."""
        now_s = monotonic_s()
        taken: list[Order] = []
        with self._lock:
            while self._heap and self._heap[0][0] <= now_s and len(taken) < most:
                taken.append(heapq.heappop(self._heap)[2])
            self._taken = len(taken)
        return taken

    def done(self) -> None:
        """Say that what was taken last was asked for."""
        with self._lock:
            self._taken = 0
