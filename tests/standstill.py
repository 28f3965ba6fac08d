"""How long the machine let a thread wait that had to do nothing but wake: its share of a delay."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from feedback.clock import monotonic_s

TICK_S = 0.01


class Standstill:
    """What a thread beside has lost to the machine so far.

    Attributes:
        total_s: by how many seconds all of its ticks together were late.
        longest_s: the longest time between two of them.
    """

    def __init__(self) -> None:
        self.total_s = 0.0
        self.longest_s = 0.0
        self._before_s = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def begin(self) -> None:
        """Start ticking."""
        self._before_s = monotonic_s()
        self._thread.start()

    def end(self) -> None:
        """Tick no longer."""
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._is_over.wait(TICK_S)
            self._note(monotonic_s())

    def _note(self, now_s: float) -> None:
        gap_s = now_s - self._before_s
        self.total_s += max(0.0, gap_s - TICK_S)
        self.longest_s = max(self.longest_s, gap_s)
        self._before_s = now_s


@contextmanager
def standing_still() -> Iterator[Standstill]:
    """Yield what the machine takes for itself within the block, up to date also after it."""
    made = Standstill()
    made.begin()
    try:
        yield made
    finally:
        made.end()
