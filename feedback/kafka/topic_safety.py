"""Checks whether a topic keeps acknowledged records when a broker dies; asks Kafka once for each.

After a refusal Kafka is asked again a while later, so that a repaired topic needs no restart of a
client.
"""

from __future__ import annotations

import threading

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.topics import min_insync_replicas
from feedback.settings.settings import KafkaSection

ASKED_AGAIN_S = 5.0


class TopicSafety:
    """Remembers which topics are safe. Safe to share between threads.

    Args:
        settings: brokers and security.
        at_least: the least `min.insync.replicas`.
    """

    def __init__(self, settings: KafkaSection, *, at_least: int) -> None:
        self._settings = settings
        self._at_least = at_least
        self._safe: set[str] = set()
        self._refused: dict[str, tuple[str, float]] = {}
        self._lock = threading.Lock()

    def knows(self, topic: str) -> bool:
        """Return whether a topic is known to be safe."""
        return topic in self._safe

    def fault(self, topic: str, *, until_s: float) -> str | None:
        """Return why a topic is not safe, None when it is.

        Args:
            until_s: monotonic time until which Kafka may answer.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """
        if topic in self._safe:
            return None
        if not self._lock.acquire(timeout=max(0.0, until_s - monotonic_s())):
            raise KafkaUnavailable(f"Kafka did not say in time whether topic {topic!r} is safe")
        try:
            if topic in self._safe:
                return None
            said, asked_s = self._refused.get(topic, ("", -ASKED_AGAIN_S))
            if not said or monotonic_s() - asked_s >= ASKED_AGAIN_S:
                said = self._ask(topic, max(0.1, until_s - monotonic_s()))
            if not said:
                self._safe.add(topic)
                return None
            self._refused[topic] = (said, monotonic_s())
            return said
        finally:
            self._lock.release()

    def _ask(self, topic: str, timeout_s: float) -> str:
        found = min_insync_replicas(self._settings, topic, timeout_s=timeout_s)
        told_otherwise = "or accept it by [client] min_insync_replicas = "
        if found is None:
            return (
                f"topic {topic!r}: this user may not read its min.insync.replicas; allow it "
                f"DescribeConfigs, {told_otherwise}1"
            )
        if found >= self._at_least:
            return ""
        return (
            f"topic {topic!r} has min.insync.replicas = {found}, durability 'safe' wants "
            f"{self._at_least}: acknowledged records may be lost with "
            f"{'one broker' if found < 2 else f'{found} brokers'}; "
            f"raise it (with a replication factor above it), {told_otherwise}{found}"
        )
