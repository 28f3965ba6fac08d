"""Questions and requests about topics and groups, as they need them from an engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from feedback.kafka.administrator import Administrator
from feedback.kafka.engines import engine_of
from feedback.settings.settings import KafkaSection


@contextmanager
def administrator(settings: KafkaSection, *, timeout_s: float) -> Iterator[Administrator]:
    """Yield an administrator that is connected, and closed at the end.

    Args:
        timeout_s: how long Kafka may take for the connection, and for one answer.

    Raises:
        KafkaFault: Kafka is away, or refuses.
    """
    admin = engine_of(settings).administrator(settings, timeout_s)
    try:
        yield admin
    finally:
        admin.close()
