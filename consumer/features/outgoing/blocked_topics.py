"""Which topics have records that cannot be written now, and when waiting rows are tried again.

Waiting rows are gone through from the oldest on. Later rows are written meanwhile; failed ones are
tried again with the next passage, after a pause that grows while passages fail. So a record that
Kafka can never take costs one try a passage, and a topic that is away one for all.
"""

from __future__ import annotations

from collections.abc import Collection

from feedback.doubling import doubled
from feedback.logs import EventLog

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0


class BlockedTopics:
    """Knows the topics that failed in this passage. Belongs to one thread.

    Topics are those of the requests, not those of their records. Logs `<kind>.hindered` once for
    each, however often it fails, and `<kind>.free` when a whole passage found nothing in its way
    any more.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._log = EventLog(f"onceward.{kind}")
        self._closed: set[str] = set()
        self._hindered: set[str] = set()
        self._alarmed: set[str] = set()
        # Hindered ones in a row.
        self._passages = 0
        self._again_s = 0.0

    @property
    def is_hindered(self) -> bool:
        """Whether anything could not be written in this passage."""
        return bool(self._hindered)

    @property
    def again_s(self) -> float:
        """The monotonic time of the next passage."""
        return self._again_s

    def begins(self, now_s: float) -> bool:
        """Whether a passage begins now; then everything is tried again."""
        if now_s < self._again_s:
            return False
        self._closed.clear()
        self._hindered.clear()
        return True

    def is_open(self, topic: str) -> bool:
        """Whether records about this topic are worth a try."""
        return topic not in self._closed

    def closed(self, topic: str, reason: str) -> None:
        """Note that none of this topic can be written."""
        self._closed.add(topic)
        self._hinder(topic, reason)

    def refused(self, topic: str, reason: str) -> None:
        """Note that one of this topic was not taken; others may be."""
        self._hinder(topic, reason)

    def ends(self, now_s: float, *, waiting: Collection[str]) -> None:
        """Note that everything that could be written now is.

        Args:
            waiting: topics of which something waits, and nothing was written now.
        """
        for topic in sorted(self._alarmed - self._hindered - {*waiting}):
            self._alarmed.discard(topic)
            self._log.info(f"{self._kind}.free", topic=topic)
        if not self._hindered:
            self._passages = 0
        elif now_s >= self._again_s:
            self._passages += 1
            self._again_s = now_s + doubled(FIRST_PAUSE_S, LONGEST_PAUSE_S, self._passages)

    def _hinder(self, topic: str, reason: str) -> None:
        self._hindered.add(topic)
        if topic not in self._alarmed:
            self._alarmed.add(topic)
            self._log.error(f"{self._kind}.hindered", topic=topic, reason=reason)
