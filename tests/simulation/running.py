"""Many schedules, one after the other, with the product's clocks and logs out of the way."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager

from tests.simulation.clock import simulated_time
from tests.simulation.schedule import Outcome, draw_and_run


@contextmanager
def simulated() -> Iterator[None]:
    """Let the product live in simulated time, without a word, until the block is left."""
    log, state = logging.getLogger("onceward"), random.getstate()
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with simulated_time():
            yield
    finally:
        log.setLevel(level)
        random.setstate(state)


def first_broken(seed: int, count: int) -> tuple[Outcome | None, int]:
    """Return the first of so many schedules that breaks a promise, and how many were run.

    Args:
        seed: of the first schedule; each next one has the next seed.
    """
    for number in range(count):
        outcome = draw_and_run(seed + number)
        if outcome.violation is not None:
            return outcome, number + 1
    return None, count
