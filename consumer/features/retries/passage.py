"""A sweeper's place among overdue retries: page after page, and how far back each passage goes.

A next run is due after its row was written. So after a full passage the next one needs to see only
retries that came due since, and those that were still overdue then (`consumer.journal.span`). Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from consumer.journal import Overdue
from consumer.journal.pacing import EVER_MS
from consumer.journal.retrying import FROM_THE_OLDEST, DueCursor
from consumer.journal.span import Span


class Passage:
    """The passages of one sweeper, one after the other; each may take several sweeps.

    Args:
        page: how many rows a full page has.

    Attributes:
        cursor: behind which the next page begins.
    """

    def __init__(self, page: int) -> None:
        self.cursor = FROM_THE_OLDEST
        self._page = page
        self._topics: Collection[str] = ()
        self._begin_at(0.0)

    def go_on(self, topics: Collection[str], now_s: float) -> None:
        """Begin a sweep over these topics.

        With other topics than before all of it begins anew: retries of a paused topic may be old.
        """
        if topics != self._topics:
            self._topics = frozenset(topics)
            self._begin_at(now_s)

    def within_ms(self, now_s: float) -> int:
        """Begin a page; return the largest delay, in ms, of the retries that it finds."""
        if self.cursor != FROM_THE_OLDEST:
            return EVER_MS if self._span.is_all else self._span.age_ms(now_s)
        self._began_s, self._took_s, self._oldest_ms = now_s, 0.0, 0
        return self._span.begin(now_s)

    def read(self, found: Sequence[Overdue], *, took_s: float) -> bool:
        """Take in a page; return whether the passage ends with it.

        Args:
            took_s: how long the database took.
        """
        self._took_s += took_s
        self._oldest_ms = max([self._oldest_ms, *(one.late_ms for one in found)])
        if len(found) == self._page:
            self.cursor = DueCursor.behind(found[-1].row)
            return False
        self.cursor = FROM_THE_OLDEST
        until_s = self._began_s + self._took_s
        self._span.looked(self._began_s, until_s, oldest_ms=self._oldest_ms)
        return True

    def failed(self, *, took_s: float) -> None:
        """Begin anew: the database gave up on a page."""
        self.cursor = FROM_THE_OLDEST
        self._span.ended(self._began_s, self._began_s + self._took_s + took_s)

    def _begin_at(self, now_s: float) -> None:
        self.cursor = FROM_THE_OLDEST
        self._span = Span(now_s)
        self._began_s, self._took_s, self._oldest_ms = now_s, 0.0, 0
