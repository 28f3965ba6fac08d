"""The engine that the settings name: what connects to Kafka for everybody else.

Engines are imported when one is needed, since each loads its library.
"""

from __future__ import annotations

from feedback.kafka.engine import Engine
from feedback.settings.settings import KafkaSection


def engine_of(settings: KafkaSection) -> Engine:
    """Return the engine of these settings."""
    from feedback.kafka.kafka_python.engine import KAFKA_PYTHON

    return KAFKA_PYTHON
