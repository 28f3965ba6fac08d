"""An open loop: requests are due at fixed times, whatever became of those before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

START_IN_S = 0.1
WARM_UP_S = 1.0
# A thread has a quarter of a second for a request before its next one starts late.
THREAD_SPARES_S = 0.25
FEWEST_THREADS = 8


def open_loop(one: Callable[[], None], *, rate_per_s: float, seconds: float) -> list[float]:
    """Call `one` `rate_per_s` times a second, and return how long each call took, in ms.

    A call is measured from its start; one whose thread was still busy, from when it was due.
    Those due in the first second are made and not returned.
    """
    count = int(rate_per_s * seconds)
    threads = max(FEWEST_THREADS, int(rate_per_s * THREAD_SPARES_S))
    started_s = time.monotonic() + START_IN_S
    took_ms: list[float] = []
    lock = threading.Lock()

    def lane(first: int) -> None:
        for number in range(first, count, threads):
            due_s = started_s + number / rate_per_s
            began_s = wait_until(due_s)
            one()
            ended_s = time.monotonic()
            if due_s - started_s >= WARM_UP_S:
                with lock:
                    took_ms.append((ended_s - began_s) * 1000)

    with ThreadPoolExecutor(threads) as pool:
        for ended in [pool.submit(lane, first) for first in range(threads)]:
            ended.result()
    return took_ms


def wait_until(due_s: float) -> float:
    """Sleep until `due_s` and return the time then; return `due_s` at once when it has passed."""
    left_s = due_s - time.monotonic()
    if left_s <= 0:
        return due_s
    time.sleep(left_s)
    return time.monotonic()
