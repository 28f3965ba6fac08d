"""Makes the clients' senders: of the library that is set, or of a broker in this process.

A library is imported when one of its senders is needed. The sender that keeps the order is
kafka-python's, whatever is set.
"""

from __future__ import annotations

from feedback.kafka.confluent.connection import require_known
from feedback.kafka.durability import PLAIN, Durability
from feedback.kafka.engine import ClientSenders
from feedback.kafka.engines import not_installed
from feedback.kafka.in_process import engine_at
from feedback.kafka.sending import KafkaSender, OrderedSender, SendingPlan
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

    Raises:
        SettingsError: the library that is set is not installed, or lacks a setting.
    """
    safety = None
    # Every topic has at least one replica in sync: its leader.
    if durability.min_insync > 1:
        safety = TopicSafety(settings, at_least=durability.min_insync)
    plan = SendingPlan(send_timeout_s, max_request_bytes, durability, safety)
    if (here := _in_process(settings)) is not None:
        return here.single(settings, plan)
    # Only where a person wants it: `auto` means what has been tested for longest.
    if settings.client == "confluent":
        return _on_librdkafka(settings, plan)
    from feedback.kafka.kafka_python.sender import KafkaPythonSender

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
    if (here := _in_process(settings)) is not None:
        return here.ordered(settings, send_timeout_s)
    from feedback.kafka.kafka_python.ordered_sender import KafkaPythonOrderedSender

    return KafkaPythonOrderedSender(settings, send_timeout_s=send_timeout_s)


def size_of_record(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    """Return how many bytes a sender counts for a record, at most."""
    from feedback.kafka.kafka_python.sender import size_of_counted

    return size_of_counted(key, value, headers)


def _on_librdkafka(settings: KafkaSection, plan: SendingPlan) -> KafkaSender:
    """Return a sender on librdkafka.

    Raises:
        SettingsError: it is not installed, or lacks a setting.
    """
    try:
        from feedback.kafka.confluent.sender import ConfluentSender
    except ImportError as error:
        raise not_installed(error) from error
    require_known(settings)
    return ConfluentSender(settings, plan)


def _in_process(settings: KafkaSection) -> ClientSenders | None:
    engine = engine_at(settings.bootstrap_servers)
    return None if engine is None else engine.senders
