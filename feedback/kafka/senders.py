"""Makes the clients' senders.

kafka-python is imported when one is needed.
"""

from __future__ import annotations

from feedback.kafka.durability import PLAIN, Durability
from feedback.kafka.sending import KafkaSender, OrderedSender
from feedback.kafka.topic_safety import TopicSafety
from feedback.settings.settings import KafkaSection


def open_sender(
    settings: KafkaSection,
    *,
    send_timeout_s: float,
    max_request_bytes: int,
    durability: Durability = PLAIN,
) -> KafkaSender:
    """Return a sender.

    Args:
        settings: brokers and security.
        send_timeout_s: no send waits longer.
        max_request_bytes: the largest record, key and headers included.
        durability: the acknowledgements that a send waits for.
    """
    from feedback.kafka.kafka_python.sender import KafkaPythonSender

    safety = None
    # Every topic has at least one replica in sync: its leader.
    if durability.min_insync > 1:
        safety = TopicSafety(settings, at_least=durability.min_insync)
    return KafkaPythonSender(
        settings,
        send_timeout_s=send_timeout_s,
        max_request_bytes=max_request_bytes,
        durability=durability,
        safety=safety,
    )


def open_ordered_sender(settings: KafkaSection, *, send_timeout_s: float) -> OrderedSender:
    """Return a sender that keeps the order.

    Args:
        settings: brokers and security.
        send_timeout_s: how long `PendingRecord.result` waits.
    """
    from feedback.kafka.kafka_python.ordered_sender import KafkaPythonOrderedSender

    return KafkaPythonOrderedSender(settings, send_timeout_s=send_timeout_s)


def size_of_record(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    """Return how many bytes a sender counts for a record, at most."""
    from feedback.kafka.kafka_python.sender import size_of_counted

    return size_of_counted(key, value, headers)
