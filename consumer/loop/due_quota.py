"""How much of a busy worker goes to retries. Pure.

A retry costs nearly three times as much as a plain request: it is read once more from Kafka, its
claim appends to the history, and its failure wrote a row and a record. So while others queue for
slots, retries get one claim for each `FRESH_FOR_EACH` of theirs, some at a time; when none queue,
all they want. Measured with every tenth of 10,000 no-op requests failing twice
(`python -m tests.bench.retries`): the others have seven tenths of the throughput that they have
without failures, and had half of it without this rule.
"""

from __future__ import annotations

FRESH_FOR_EACH = 40
EVERY_S = 0.1
# The quota that is saved up while no retry is due is not spent at once.
MOST_SAVED = 16.0


class DueQuota:
    """Counts the slots that retries may still take."""

    def __init__(self) -> None:
        self._saved = 1.0
        self._asked_s = float("-inf")

    def earn(self, fresh: int) -> None:
        """Hear how many others were taken."""
        self._saved = min(MOST_SAVED, self._saved + fresh / FRESH_FOR_EACH)

    def room(self, most: int, now_s: float) -> int:
        """Return how many retries may be taken while others queue, at most `most`."""
        if now_s < self._asked_s + EVERY_S:
            return 0
        self._asked_s = now_s
        return min(most, int(self._saved))

    def spend(self, taken: int) -> None:
        """Hear how many retries were taken while others queued."""
        self._saved -= taken
