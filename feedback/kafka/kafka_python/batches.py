"""Finds the offsets of a partition that hold no records, batch by batch in its log.

Clients skip them silently: marks of transactions, and aborted records. A count of offsets needs to
tell them from missing records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafka.errors import for_code
from kafka.protocol.consumer import FetchRequest, IsolationLevel
from kafka.record.memory_records import MemoryRecords

from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python.wire import KafkaWire
from feedback.kafka.probes import SilentOffsets
from feedback.settings.settings import KafkaSection

FETCH_BYTES = 1 << 20
WAIT_MS = 500


class KafkaPythonSilences:
    """See `feedback.kafka.probes.SilenceProbe`.

    Args:
        settings: brokers and security.
    """

    def __init__(self, settings: KafkaSection) -> None:
        self._wire = KafkaWire(settings)

    def silent(self, topic: str, partition: int, first: int, after: int) -> list[SilentOffsets]:
        """Return the stretches of offsets that hold no committed records."""
        return silent(self._wire, topic, partition, first, after)

    def close(self) -> None:
        """Close the connection."""
        self._wire.close()


def silent(
    wire: KafkaWire, topic: str, partition: int, first: int, after: int
) -> list[SilentOffsets]:
    """Return the stretches of offsets that hold no committed records: (first, after), in order.

    Args:
        first, after: the range of offsets to check; the log's end ends it as well.

    Raises:
        KafkaUnavailable: the broker does not answer, or no longer has these offsets.
    """
    found: list[SilentOffsets] = []
    position = first
    while position < after:
        batches = list(_fetched(wire, topic, partition, position))
        if not batches:
            break
        for begin, end, is_silent in batches:
            begin, end = max(begin, position), min(end, after)
            if is_silent and begin < end:
                joins = bool(found) and found[-1][1] == begin
                found[-1:] = [(found[-1][0], end)] if joins else [*found[-1:], (begin, end)]
            position = max(position, end)
    return found


def _fetched(
    wire: KafkaWire, topic: str, partition: int, offset: int
) -> Iterator[tuple[int, int, bool]]:
    """Yield the batches that one answer brings: first offset, the one after its last, and whether
    it holds no committed records."""
    answer = wire.ask(wire.leader(topic, partition), _question(topic, partition, offset))
    (found,) = answer.responses[0].partitions
    if found.error_code:
        wire.close()
        reason = for_code(found.error_code).__name__
        raise KafkaUnavailable(f"Kafka: {reason} for {topic}-{partition} at {offset}")
    begun = sorted((one.first_offset, one.producer_id) for one in found.aborted_transactions or ())
    aborted: set[int] = set()
    records = MemoryRecords(bytes(found.records or b""))
    while (batch := records.next_batch()) is not None:
        while begun and begun[0][0] <= batch.last_offset:
            aborted.add(begun.pop(0)[1])
        if batch.is_control_batch:
            aborted.discard(batch.producer_id)
        is_aborted = batch.is_transactional and batch.producer_id in aborted
        yield batch.base_offset, batch.next_offset, batch.is_control_batch or is_aborted


def _question(topic: str, partition: int, offset: int) -> Any:
    of_topic = FetchRequest.FetchTopic
    asked = of_topic.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=FETCH_BYTES,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation_level=IsolationLevel.READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=[of_topic(topic=topic, partitions=[asked])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=4,
        # Later versions name topics by their ids.
        max_version=12,
    )
