"""How long ended runs wait for others, so that one transaction writes them all (pure)."""

from __future__ import annotations

GATHER_S = 0.005
MANY_SLOTS = 16
# With fewer than one gathered request in so many, others are not waited for.
FEW = 4


class WriteBatching:
    """While requests queue for slots, lets some outcomes come together before they are written.

    A transaction costs nearly the same for one as for thirty, and children answer one by one. With
    nobody waiting for a slot nothing is put off, so it costs no latency. Nor where handlers take
    their time, and the last transaction had few: a slot that waits would cost more.

    Args:
        slots: how many handlers run at the same time.
    """

    def __init__(self, slots: int) -> None:
        # With few slots each outcome is a large part of the work, and is not kept waiting.
        self._enough = slots // (2 if slots > MANY_SLOTS else 4)
        self._written_s = 0.0
        self._written = 0

    def wrote(self, settlements: int, *, now_s: float) -> None:
        """Note a transaction, with how many outcomes it had."""
        self._written_s, self._written = now_s, settlements

    def wait_s(self, settlements: int, *, backlog: bool, now_s: float) -> float:
        """Return how long to wait for further outcomes; 0 to write now.

        Args:
            settlements: how many outcomes are there.
            backlog: whether requests queue for slots.

        >>> batching = WriteBatching(64)
        >>> batching.wrote(8, now_s=1.0)
        >>> round(batching.wait_s(31, backlog=True, now_s=1.002), 3)
        0.003
        >>> batching.wait_s(32, backlog=True, now_s=1.002)
        0.0
        >>> batching.wait_s(31, backlog=False, now_s=1.002)
        0.0
        >>> batching.wrote(7, now_s=1.0)
        >>> batching.wait_s(31, backlog=True, now_s=1.002)
        0.0
        """
        if FEW * self._written < self._enough or not backlog:
            return 0.0
        if not 0 < settlements < self._enough:
            return 0.0
        return max(0.0, self._written_s + GATHER_S - now_s)
