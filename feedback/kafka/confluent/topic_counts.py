"""How many partitions topics have, asked by a client of its own, in a thread of its own.

A broker answers nothing else on a connection while a fetch waits there for records: up to 0.5 s.
And confluent-kafka lets each call of one client wait for the end of the others: a poll would wait
for these questions.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from feedback.clock import monotonic_s
from feedback.kafka.confluent.connection import connection
from feedback.kafka.confluent.faults import ABSENT
from feedback.settings.sections import METADATA_MAX_AGE_MS
from feedback.settings.settings import KafkaSection

_ANSWER_S = 2.0
_AGAIN_S = 1.0


class TopicCounts:
    """Counts the partitions of topics, again when the counts are old.

    Args:
        settings: brokers and security.
    """

    def __init__(self, settings: KafkaSection) -> None:
        self._settings = settings
        self._client: Any = None
        self._counts: dict[str, int] = {}
        self._due_s = float("-inf")
        self._asked: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onceward-topics")

    def known(self, topics: Collection[str]) -> dict[str, int]:
        """Return the counts by the last answer; 0: no such topic. Ask again where that is due."""
        now_s = monotonic_s()
        if now_s >= self._due_s and (self._asked is None or self._asked.done()):
            self._due_s = now_s + METADATA_MAX_AGE_MS / 1000
            self._asked = self._thread.submit(self._ask, tuple(topics))
        return {one: self._counts[one] for one in topics if one in self._counts}

    def ask_soon(self) -> None:
        """Ask at the next call: a topic is said to be gone."""
        self._due_s = float("-inf")

    def close(self) -> None:
        """End its thread, and its client."""
        self._thread.shutdown(cancel_futures=True)
        self._client = None

    def _ask(self, topics: Collection[str]) -> None:
        for topic in topics:
            try:
                if self._client is None:
                    self._client = AdminClient(connection(self._settings))
                found = self._client.list_topics(topic, timeout=_ANSWER_S).topics[topic]
            except KafkaException:
                self._due_s = monotonic_s() + _AGAIN_S
                return
            if found.error is None:
                self._counts[topic] = len(found.partitions)
            elif found.error.code() in ABSENT:
                self._counts[topic] = 0
            else:
                self._due_s = monotonic_s() + _AGAIN_S
