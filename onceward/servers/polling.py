"""Waiting for something that nobody announces: the one place that polls."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# No promise, a guard against waiting for ever: it also holds on a machine that stands still.
HANG_S = 60.0
# Asking takes a tenth of the time: what is asked needs the processors, to become true.
REST_FACTOR = 9.0
LONGEST_REST_S = 0.25


def eventually(
    condition: Callable[[], T],
    *,
    timeout_s: float = HANG_S,
    interval_s: float = 0.02,
    what: str = "",
) -> T:
    """Return the first true value of `condition`, asked every `interval_s` seconds.

    A condition that takes long to ask is asked less often.

    Raises:
        TimeoutError: after `timeout_s` seconds without one; names the condition.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        asked_s = time.monotonic()
        if value := condition():
            return value
        answered_s = time.monotonic()
        if answered_s >= deadline_s:
            awaited = what or getattr(condition, "__name__", repr(condition))
            raise TimeoutError(f"not within {timeout_s:g} s: {awaited}")
        rest_s = min((answered_s - asked_s) * REST_FACTOR, LONGEST_REST_S)
        time.sleep(max(interval_s, rest_s))
