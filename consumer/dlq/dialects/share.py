"""Share groups (KIP-1191): the broker itself writes the letter; text."""

from __future__ import annotations

from consumer.dlq.dialects.said import Said
from consumer.dlq.letter import Failure, Original

_PREFIX = "__dlq.errors."
# All its messages are whole sentences, under one exception class.
REASON = "SHARE_GROUP"


def share(said: Said) -> Failure | None:
    """Return the failure in a letter of a share group; None when it is none."""
    if not said.has(f"{_PREFIX}topic", f"{_PREFIX}group"):
        return None
    return Failure(
        original=Original(
            topic=said.text(f"{_PREFIX}topic", first=True),
            partition=said.decimal(f"{_PREFIX}partition", first=True),
            offset=said.decimal(f"{_PREFIX}offset", first=True),
        ),
        reason=REASON,
        exception_message=said.text(f"{_PREFIX}message"),
        attempts=said.decimal(f"{_PREFIX}delivery.count"),
        group=said.text(f"{_PREFIX}group"),
    )
