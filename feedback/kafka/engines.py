"""The engine that the settings name: what connects to Kafka for everybody else.

With `client = "auto"` it is that of the preferred library. One that lacks a setting which is given,
or is not installed, is not chosen: a new default must not stop a worker that has run before.

Engines are imported when one is needed, since each loads its library. The engine of a broker in
this process (`in_process`) is named by its address, and never imported here.
"""

from __future__ import annotations

from importlib.util import find_spec

from feedback.errors import SettingsError
from feedback.kafka.confluent.connection import unknown_settings
from feedback.kafka.engine import Engine
from feedback.kafka.in_process import engine_at
from feedback.settings.settings import KafkaSection

PREFERRED: str = "kafka-python"


def engine_of(settings: KafkaSection) -> Engine:
    """Return the engine of these settings.

    Raises:
        SettingsError: its library is not installed.
    """
    if (here := engine_at(settings.bootstrap_servers)) is not None:
        return here
    from feedback.kafka.kafka_python.engine import KAFKA_PYTHON

    if library_of(settings) != "confluent":
        return KAFKA_PYTHON
    try:
        from feedback.kafka.confluent.engine import confluent
    except ImportError as error:
        raise not_installed(error) from error
    return confluent(KAFKA_PYTHON)


def library_of(settings: KafkaSection) -> str:
    """Return the name of the library that speaks to Kafka with these settings."""
    if settings.client != "auto":
        return settings.client
    has_all = not unknown_settings(settings) and find_spec("confluent_kafka") is not None
    return PREFERRED if has_all else "kafka-python"


def not_installed(error: ImportError) -> SettingsError:
    """Return the error for a library that is set, and not installed."""
    needed = "pip install 'onceward[confluent]'"
    return SettingsError(f"[kafka] client = confluent: {needed} ({error})")
