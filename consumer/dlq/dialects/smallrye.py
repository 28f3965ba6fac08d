"""SmallRye Reactive Messaging (Quarkus): text; its headers stand before the record's own."""

from __future__ import annotations

from consumer.dlq.dialects.said import Said, simple_name
from consumer.dlq.letter import Failure, Original

_PREFIX = "dead-letter-"


def smallrye(said: Said) -> Failure | None:
    """Return the failure in a letter of a SmallRye application; None when it is none."""
    if not said.has(f"{_PREFIX}reason", f"{_PREFIX}topic", f"{_PREFIX}exception-class-name"):
        return None
    error_class = said.text(f"{_PREFIX}exception-class-name", first=True)
    message = said.text(f"{_PREFIX}reason", first=True)
    cause = said.text(f"{_PREFIX}cause", first=True)
    if cause is not None and cause != message:
        message = cause if message is None else f"{message}; caused by {cause}"
    return Failure(
        original=Original(
            topic=said.text(f"{_PREFIX}topic", first=True),
            partition=said.decimal(f"{_PREFIX}partition", first=True),
            offset=said.decimal(f"{_PREFIX}offset", first=True),
        ),
        reason=simple_name(error_class),
        exception_class=error_class,
        exception_message=message,
    )
