"""Converts librdkafka's records into ours, even those that confluent-kafka cannot give.

Kafka accepts any bytes as a header's name. For a name that is not UTF-8 confluent-kafka 2.16.1 puts
a null pointer into the list of headers, and leaves an exception pending: whoever looks at that item
ends the process. So the list is counted by the garbage collector, which passes over null pointers,
before anybody looks; and such a record is read anew, by another engine.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Sequence
from typing import Any

from feedback.records.envelope import NULL_HEADER, Record

# Reads one record again, by its coordinates; None: there is none any more.
ReadAnew = Callable[[str, int, int], Record | None]


def record_of(message: Any, read_anew: ReadAnew) -> Record | None:
    """Return a polled record as a record of ours; None where it has gone since.

    Args:
        read_anew: for a record whose headers cannot be had.

    Raises:
        KafkaFault: it could not be read anew.
    """
    given = _headers(message)
    if given is None:
        return read_anew(message.topic(), message.partition(), message.offset())
    kind, timestamp_ms = message.timestamp()
    return Record(
        topic=message.topic(),
        partition=message.partition(),
        offset=message.offset(),
        timestamp_ms=timestamp_ms if kind else -1,
        key=message.key(),
        value=message.value(),
        headers=tuple([(name, NULL_HEADER if value is None else value) for name, value in given]),
    )


def _headers(message: Any) -> Sequence[tuple[str, bytes | None]] | None:
    """Return the headers; None where one has a name that is not UTF-8."""
    try:
        given: list[tuple[str, bytes | None]] | None = message.headers()
        if given is None:
            return ()
        if len(gc.get_referents(given)) == len(given):
            return given
    except (SystemError, UnicodeError):
        # The pending exception, where the interpreter has noticed it.
        return None
    ctypes.pythonapi.PyErr_Clear()
    return None
