"""Which records were under way with no other one of their topic beside them.

A broker's word that a right is missing is of one record. librdkafka gives the topic's error to
others of it as well that wait for another try (`rd_kafka_topic_set_error`): those may be stored.
"""

from __future__ import annotations

import threading
from collections import Counter


class LoneRecords:
    """Counts the records of each topic. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._shared: set[str] = set()

    def begin(self, topic: str) -> None:
        """Note that one more is under way."""
        with self._lock:
            self._counts[topic] += 1
            if self._counts[topic] > 1:
                self._shared.add(topic)

    def end(self, topic: str) -> None:
        """Note that the end of one is known."""
        with self._lock:
            self._counts[topic] -= 1
            if not self._counts[topic]:
                del self._counts[topic]
                self._shared.discard(topic)

    def is_alone(self, topic: str) -> bool:
        """Return whether none was under way beside the one that is, since it was handed over.

        >>> lone = LoneRecords()
        >>> lone.begin("pay"), lone.is_alone("pay")
        (None, True)
        >>> lone.begin("pay"), lone.end("pay"), lone.is_alone("pay")
        (None, None, False)
        """
        with self._lock:
            return topic not in self._shared
