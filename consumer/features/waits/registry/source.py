"""Wait topics read as a member of the registries' group."""

from __future__ import annotations

from kafka import TopicPartition

from consumer.features.waits.registry.facts import Place
from consumer.intake.kafka_source import NOT_OURS, KafkaSource

# Far more than what one poll of the network brings: one transaction for as much as is there.
MAX_RECORDS = 5000


class WaitSource(KafkaSource):
    """Reads wait topics; see `KafkaSource`. Where to begin says the table, by `rewind`."""

    def position(self, place: Place) -> int:
        """Return the next offset to be read, which is behind what compaction took and behind what
        is no record; -1 where it is not known, or the partition not ours."""
        try:
            found = self._consumer.position(TopicPartition(*place), timeout_ms=1)
        except NOT_OURS:
            return -1
        return -1 if found is None else int(found)
