"""The throttle of logins by a password: turns to be looked at, and names that failed too often.

Names of the file have turns and a memory of failures of their own, apart from all others: guesses
with invented names neither keep a person waiting nor make the failures of one forgotten. Guesses
at names of the file are few, since failures of a name end its turns for a while.

The cost: who guesses can tell the names of the file. While invented names wait, those wait less;
and their five failures are remembered, where those of an invented name go with the next thousand.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from feedback.clock import monotonic_s

# Of one name within this time; each failure further waits for the first to be so old.
MOST_FAILURES = 5
FAILURES_S = 300.0
# Of invented names, together.
MOST_REMEMBERED = 1000
LONGEST_REMEMBERED = 128
# Each password that is looked at takes 64 MiB and tens of milliseconds.
AT_ONCE = 1
# Others wait for their turn: guesses all the time would shut out a person with the password.
MOST_WAITING = 20
LONGEST_WAIT_S = 5.0
# Each holds a thread; of both kinds.
MOST_LOGINS = 2 * (AT_ONCE + MOST_WAITING)


class TooManyLogins(Exception):
    """Too many logins failed, or are looked at now."""


class LoginThrottle:
    """Any thread may call it."""

    def __init__(self) -> None:
        self._known_turns, self._other_turns = _Turns(), _Turns()
        self._known_failures: dict[str, deque[float]] = {}
        self._other_failures: deque[tuple[float, str]] = deque(maxlen=MOST_REMEMBERED)
        self._failures_lock = threading.Lock()

    @contextmanager
    def turn(self, name: str, *, is_known: bool) -> Iterator[None]:
        """Wait for the turn of a name.

        Args:
            is_known: whether the file of people has it.

        Raises:
            TooManyLogins: this name has failed too often, or too many wait.
        """
        self._require_few_failures(name, is_known)
        with (self._known_turns if is_known else self._other_turns).one():
            # Others of this name may have failed meanwhile.
            self._require_few_failures(name, is_known)
            yield

    def failed(self, name: str, *, is_known: bool) -> None:
        """Remember that a login has failed just now."""
        now_s = monotonic_s()
        with self._failures_lock:
            if not is_known:
                self._other_failures.append((now_s, name[:LONGEST_REMEMBERED]))
                return
            self._known_failures = {
                one: failed_s
                for one, failed_s in self._known_failures.items()
                if failed_s[-1] > now_s - FAILURES_S
            }
            self._known_failures.setdefault(name, deque(maxlen=MOST_FAILURES)).append(now_s)

    def _require_few_failures(self, name: str, is_known: bool) -> None:
        since_s = monotonic_s() - FAILURES_S
        with self._failures_lock:
            if is_known:
                failed_s = [*self._known_failures.get(name, ())]
            else:
                cut = name[:LONGEST_REMEMBERED]
                failed_s = [at_s for at_s, one in self._other_failures if one == cut]
        if sum(at_s > since_s for at_s in failed_s) >= MOST_FAILURES:
            raise TooManyLogins("too many logins of this name failed: try again in five minutes")


class _Turns:
    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._queue = threading.BoundedSemaphore(AT_ONCE + MOST_WAITING)

    @contextmanager
    def one(self) -> Iterator[None]:
        with _entered(self._queue, within_s=0.0), _entered(self._room, within_s=LONGEST_WAIT_S):
            yield


@contextmanager
def _entered(room: threading.BoundedSemaphore, *, within_s: float) -> Iterator[None]:
    if not room.acquire(timeout=within_s):
        raise TooManyLogins("others log in just now: try again in a moment")
    try:
        yield
    finally:
        room.release()
