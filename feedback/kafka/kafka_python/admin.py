"""A connection to Kafka for questions about topics, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python.faults import unavailable
from feedback.kafka.kafka_python.sockets import closed_at_a_fault
from feedback.settings.settings import KafkaSection


@contextmanager
def kafka_faults(settings: KafkaSection) -> Iterator[None]:
    """Turn an error of kafka-python in the block into a sentence.

    Raises:
        KafkaUnavailable: Kafka did not answer, or refused the request.
    """
    try:
        yield
    except KafkaError as error:
        raise unavailable(KafkaUnavailable, error, settings) from error
    except (ValueError, OSError) as error:
        # For example an invalid address, or a certificate that cannot be read.
        raise KafkaUnavailable(f"the [kafka] settings do not work: {error}") from error


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


@contextmanager
def administrator(settings: KafkaSection, *, timeout_s: float) -> Iterator[Any]:
    """Yield an admin client, closed at the end; see `connect_administrator`."""
    admin = connect_administrator(settings, timeout_s=timeout_s)
    try:
        yield admin
    finally:
        admin.close()
