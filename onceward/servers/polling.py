"""Waiting for something that nobody announces: the one place that polls."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# No promise, a guard against waiting for ever: it also holds on a machine that stands still.
HANG_S = 60.0


def eventually(
    condition: Callable[[], T],
    *,
    timeout_s: float = HANG_S,
    interval_s: float = 0.02,
    what: str = "",
) -> T:
    """Return the first true value of `condition`, asked every `interval_s` seconds.

    Raises:
        TimeoutError: after `timeout_s` seconds without one; names the condition.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        if value := condition():
            return value
        if time.monotonic() >= deadline_s:
            awaited = what or getattr(condition, "__name__", repr(condition))
            raise TimeoutError(f"not within {timeout_s:g} s: {awaited}")
        time.sleep(interval_s)
