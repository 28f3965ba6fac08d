"""Asking Redis within the time of whoever waits: a server that hangs holds up a call for several
times its `timeout_s`, connecting and all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

from feedback.errors import RedisUnavailable

T = TypeVar("T")

# The last look of a wait has so long, however little is left of the wait's own time.
LAST_LOOK_S = 0.5
# No call takes more than so many times `timeout_s`: a free connection, its name, its socket, its
# greetings, the call, and another for the heartbeats.
CALLS = 8
# Of many requests so many are read by one look, with a time of its own.
PART = 500


def look_s(left_s: float | None) -> float | None:
    """Return how long a look may take; None: as long as Redis may.

    Args:
        left_s: what is left of the wait, None for no end; 0: this is its last look.
    """
    return LAST_LOOK_S if left_s == 0 else left_s


def part_s(left_s: float | None) -> float | None:
    """Return how long a look at a part of many may take; None: as long as Redis may.

    Args:
        left_s: what is left of the wait, None for no end.
    """
    return None if left_s is None else max(left_s, LAST_LOOK_S)


def parts_of(request_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the ids in parts: a Redis that answers is given the time for each of them."""
    for at in range(0, len(request_ids), PART):
        yield request_ids[at : at + PART]


def in_vain(longest_s: float) -> RedisUnavailable:
    """Return the error of a look that took longer."""
    return RedisUnavailable(f"Redis: no answer within {longest_s:g} s")


def look(call: Callable[[], T], *, longest_s: float | None, timeout_s: float) -> T:
    """Return what the call returns, after at most `longest_s`.

    Args:
        timeout_s: of Redis. Only where its calls may take longer than there is time a thread of
            its own makes this one, which then ends with nobody waiting.

    Raises:
        RedisUnavailable: there was no answer within that time.
        Exception: what the call raised.
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
    except BaseException as error:  # told to who waits: nobody else looks at this thread
        answer.set_exception(error)
