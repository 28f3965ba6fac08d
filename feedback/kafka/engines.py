"""The engine that the settings name: what connects to Kafka for everybody else.

Engines are imported when one is needed, since each loads its library. The engine of a broker in
this process (`in_process`) is named by its address, and never imported here.
"""

from __future__ import annotations

from feedback.errors import SettingsError
from feedback.kafka.engine import Engine
from feedback.kafka.in_process import engine_at
from feedback.settings.settings import KafkaSection


def engine_of(settings: KafkaSection) -> Engine:
    """Return the engine of these settings.

    Raises:
        SettingsError: its library is not installed.
    """
    if (here := engine_at(settings.bootstrap_servers)) is not None:
        return here
    from feedback.kafka.kafka_python.engine import KAFKA_PYTHON

    if settings.client != "confluent":
        return KAFKA_PYTHON
    try:
        from feedback.kafka.confluent.engine import confluent
    except ImportError as error:
        needed = "pip install 'onceward[confluent]'"
        raise SettingsError(f"[kafka] client = confluent: {needed} ({error})") from error
    return confluent(KAFKA_PYTHON)
