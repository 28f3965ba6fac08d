"""Kafka Streams (KIP-1034): text; the exception is `class: message`."""

from __future__ import annotations

from consumer.dlq.dialects.said import Said, simple_name
from consumer.dlq.letter import Failure, Original

_PREFIX = "__streams.errors."


def streams(said: Said) -> Failure | None:
    """Return the failure in a letter of a Streams application; None when it is none."""
    exception = said.text(f"{_PREFIX}exception")
    if exception is None and not said.has(f"{_PREFIX}topic"):
        return None
    error_class = exception and exception.partition(": ")[0]
    return Failure(
        original=Original(
            topic=said.text(f"{_PREFIX}topic", first=True),
            partition=said.decimal(f"{_PREFIX}partition", first=True),
            offset=said.decimal(f"{_PREFIX}offset", first=True),
        ),
        reason=simple_name(error_class),
        exception_class=error_class,
        exception_message=said.text(f"{_PREFIX}message"),
        stack=said.text(f"{_PREFIX}stacktrace"),
    )
