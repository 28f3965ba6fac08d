"""Faults of wait topics that a person has made; for `onceward-worker check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from consumer.features.waits.record import wait_topic
from consumer.handlers.declaration import DeliveryKind, Handler
from feedback.kafka.topics import KafkaTopics
from feedback.settings.settings import Settings


def faults(settings: Settings, handlers: Iterable[Handler]) -> Iterator[str]:
    """Yield a sentence for each fault.

    Raises:
        KafkaUnavailable: Kafka did not answer.
    """
    topics = KafkaTopics(settings.kafka, create=False)
    for one in handlers:
        if one.delivery is not DeliveryKind.AT_LEAST_ONCE:
            continue
        name = wait_topic(one.topic, settings.kafka.group)
        partitions = topics.partitions(name)
        if not partitions:
            if not settings.worker.create_topics:
                yield f"topic {name} does not exist"
            continue
        if topics.is_compacted(name) is False:
            yield (
                f"topic {name} is not compacted: what is unfinished is lost when its records are "
                "too old, and all that ever was is read at each start; set cleanup.policy=compact"
            )
        wanted = topics.partitions(one.topic)
        if partitions < wanted:
            yield (
                f"topic {name} has {partitions} partitions and {one.topic} {wanted}: fewer workers "
                "share what dead ones left; make it anew while it is empty"
            )
