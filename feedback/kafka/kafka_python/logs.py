"""Removes keys, values, headers and passwords from kafka-python's log at DEBUG.

An application that logs everything would write them down: kafka-python 3.0 logs each record that it
is given, each request and answer, and the bytes of both, even those of a login. Importing this
module leaves the lines and replaces every value in them that is not plain.
"""

from __future__ import annotations

import logging

from kafka.net.connection import KafkaConnection
from kafka.structs import TopicPartition

# The loggers that log records. A filter sees its own logger alone.
_TELLTALES = (
    "kafka.net.connection",
    "kafka.producer.kafka",
    "kafka.producer.sender",
    "kafka.protocol.parser",
)
_PLAIN = (str, int, float, Exception, KafkaConnection, TopicPartition, type(None))


def _without_payloads(record: logging.LogRecord) -> bool:
    if record.levelno <= logging.DEBUG and isinstance(record.args, tuple):
        record.args = tuple(map(_bare, record.args))
    return True


def _bare(told: object) -> object:
    if isinstance(told, _PLAIN):
        return told
    if isinstance(told, bytes | bytearray):
        return f"<{len(told)} bytes>"
    return f"<{type(told).__name__}>"


for _name in _TELLTALES:
    logging.getLogger(_name).addFilter(_without_payloads)
