"""Calls Redis within the time that a waiting caller has.

A server that hangs holds up a call for several times its `timeout_s`, connecting and all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from feedback.errors import RedisUnavailable

T = TypeVar("T")

# The last reading of a wait has so long, however little is left of the wait's own time.
LAST_LOOK_S = 0.5
# No call takes more than so many times `timeout_s`: a free connection, its name, its socket, its
# greetings, the call, and another for the heartbeats.
CALLS = 8
# So many requests are read in one call, with a time of its own.
PART = 500


def look_s(left_s: float | None) -> float | None:
    """Return how long a reading may take; None: as long as Redis may.

    Args:
        left_s: the seconds left of the wait, None for no end; 0: this is its last reading.
    """
    return LAST_LOOK_S if left_s == 0 else left_s


def part_s(left_s: float | None) -> float | None:
    """Return how long the reading of a part may take; None: as long as Redis may.

    Args:
        left_s: the seconds left of the wait, None for no end.
    """
    return None if left_s is None else max(left_s, LAST_LOOK_S)


def parts_of(request_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in parts: a Redis that answers gets the time for each of them."""
    for at in range(0, len(request_ids), PART):
        yield request_ids[at : at + PART]


def in_vain(longest_s: float) -> RedisUnavailable:
    """Return the error of a reading that took longer."""
    return RedisUnavailable(f"Redis: no answer within {longest_s:g} s")


def look(call: Callable[[], T], *, longest_s: float | None, timeout_s: float) -> T:
    """Return the call's result, after at most `longest_s`.

    Args:
        timeout_s: Redis's. If its calls may take longer than `longest_s`, a thread of its own makes
            this one; the thread then ends with nobody waiting.

    Raises:
        RedisUnavailable: there was no answer within that time.
        Exception: an error of the call.
    """
    if longest_s is None or longest_s > CALLS * timeout_s:
        return call()
    answer: Future[T] = Future()
    threading.Thread(
        target=_carry_out, args=(call, answer), name="onceward-look", daemon=True
    ).start()
    try:
        return answer.result(longest_s)
    except TimeoutError:
        raise in_vain(longest_s) from None


def _carry_out(call: Callable[[], T], answer: Future[T]) -> None:
    try:
        answer.set_result(call())
    except BaseException as error:  # the waiting caller raises it: nobody else looks at this thread
        answer.set_exception(error)
