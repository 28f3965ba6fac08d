"""Letters written straight into a dead letter topic, as many as a test wants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka import KafkaProducer

from consumer.dlq.letter import Letter
from feedback.clock import epoch_ms
from feedback.records.envelope import Record
from tests.consumer.dlq.samples import FAILED_AT, letter

# The broker forgets what is as old as the samples.
SAMPLES_AGE_MS = epoch_ms() - FAILED_AT


def write(
    kafka: str,
    topic: str,
    letters: Iterable[Letter | Record],
    *,
    age_ms: int = SAMPLES_AGE_MS,
) -> None:
    """Write records into a topic, each into its partition 0.

    Args:
        age_ms: is added to their times, so that samples are of now.
    """
    sent = []
    producer = KafkaProducer(bootstrap_servers=kafka, linger_ms=20)
    try:
        for one in letters:
            record = one.record if isinstance(one, Letter) else one
            future = producer.send(
                topic,
                record.value,
                key=record.key,
                partition=0,
                headers=list(record.headers),
                timestamp_ms=record.timestamp_ms + age_ms,
            )
            sent.append(future)
        for future in sent:
            future.get(timeout=60)
    finally:
        producer.close()


def of_group(group: str, *ids: str, **said: Any) -> list[Letter]:
    """Return letters of a group."""
    return [letter(one, DLQ_CONSUMER_GROUP=group, **said) for one in ids]
