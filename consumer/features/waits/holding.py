"""Writes the holder of each request until Kafka has it: before an offset is committed."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from consumer.features.waits.record import Wait, encode, wait_topic
from feedback.errors import KafkaUnavailable
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter

# The most bytes that a wait record adds to its request: the key a second time, names and numbers.
ROOM_BYTES = 65_536


class Holding:
    """Writes wait records. Safe to share between threads, which wait for each other."""

    def __init__(self, *, group: str, writer: KafkaWriter, topics: KafkaTopics) -> None:
        self._group = group
        self._writer = writer
        self._topics = topics
        self._lock = threading.Lock()

    def hold(self, waits: Iterable[tuple[Wait, int | None]]) -> list[KafkaUnavailable | None]:
        """Write wait records, each into this partition of its topic or where its id belongs.

        Return for each None when Kafka has it, else the error.
        """
        with self._lock:
            those = list(waits)
            missing = self._missing({wait.record.topic for wait, _ in those})
            ready = [one for one in those if one[0].record.topic not in missing]
            records = [encode(wait, group=self._group, partition=at) for wait, at in ready]
            said = iter(self._writer.write(records))
            return [
                missing[wait.record.topic] if wait.record.topic in missing else next(said)
                for wait, _ in those
            ]

    def close(self) -> None:
        """Close the connection; a record that is not acknowledged may or may not be written."""
        with self._lock:
            self._writer.close()

    def _missing(self, topics: Iterable[str]) -> dict[str, KafkaUnavailable]:
        missing: dict[str, KafkaUnavailable] = {}
        for topic in topics:
            name = wait_topic(topic, self._group)
            try:
                self._topics.ensure(name, like=topic, room_bytes=ROOM_BYTES, compacted=True)
            except KafkaUnavailable as error:
                missing[topic] = error
        return missing
