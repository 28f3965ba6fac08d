"""Kafka Connect (KIP-298): text, with `errors.deadletterqueue.context.headers.enable`."""

from __future__ import annotations

from consumer.dlq.dialects.said import Said, simple_name
from consumer.dlq.letter import Failure, Original

_PREFIX = "__connect.errors."


def connect(said: Said) -> Failure | None:
    """Return the failure in a letter of a sink connector; None when it is none."""
    if not said.has(f"{_PREFIX}topic", f"{_PREFIX}stage", f"{_PREFIX}connector.name"):
        return None
    error_class = said.text(f"{_PREFIX}exception.class.name")
    return Failure(
        original=Original(
            topic=said.text(f"{_PREFIX}topic", first=True),
            partition=said.decimal(f"{_PREFIX}partition", first=True),
            offset=said.decimal(f"{_PREFIX}offset", first=True),
        ),
        reason=simple_name(error_class),
        stage=said.text(f"{_PREFIX}stage"),
        exception_class=error_class,
        exception_message=said.text(f"{_PREFIX}exception.message"),
        stack=said.text(f"{_PREFIX}exception.stacktrace"),
        group=said.text(f"{_PREFIX}connector.name"),
    )
