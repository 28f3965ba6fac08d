"""kafka-python's client for questions about topics and groups."""

from __future__ import annotations

from kafka.admin import KafkaAdminClient

from feedback.kafka.kafka_python.sockets import closed_at_a_fault
from feedback.settings.settings import KafkaSection


def connect_administrator(settings: KafkaSection, *, timeout_s: float) -> KafkaAdminClient:
    """Return an admin client, which the caller closes.

    Args:
        timeout_s: how long Kafka may take for the connection, and for one answer.
    """
    limit_ms = max(1, int(timeout_s * 1000))
    # It has fewer settings than a consumer.
    given = {
        name: value
        for name, value in settings.connection().items()
        if name in KafkaAdminClient.DEFAULT_CONFIG
    }
    with closed_at_a_fault() as connect:
        return KafkaAdminClient(
            **given,
            kafka_client=connect,
            request_timeout_ms=limit_ms,
            bootstrap_timeout_ms=limit_ms,
        )
