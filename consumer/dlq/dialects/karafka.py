"""Karafka: text; `source_*`, and `original_*` before its version 2.5."""

from __future__ import annotations

from consumer.dlq.dialects.said import Said
from consumer.dlq.letter import Failure, Original

# The letter does not name the error.
REASON = "KARAFKA"


def karafka(said: Said) -> Failure | None:
    """Return the failure in a letter of a Karafka application; None when it is none."""
    prefix = prefix_of(said)
    if prefix is None:
        return None
    return Failure(
        original=Original(
            topic=said.text(f"{prefix}topic", first=True),
            partition=said.decimal(f"{prefix}partition", first=True),
            offset=said.decimal(f"{prefix}offset", first=True),
            key=said.text(f"{prefix}key", first=True),
        ),
        reason=REASON,
        attempts=said.decimal(f"{prefix}attempts"),
        group=said.text(f"{prefix}consumer_group"),
    )


def key_of(said: Said) -> bytes | None:
    """Return the key of the record that failed, which is not that of its letter.

    A record without a key and one with an empty key leave the same letter; the first is the
    likelier by far.
    """
    prefix = prefix_of(said)
    return (said.raw(f"{prefix}key", first=True) if prefix else None) or None


def prefix_of(said: Said) -> str | None:
    """Return the prefix of Karafka's headers in this letter; None when it is none of Karafka's."""
    for prefix in ("source_", "original_"):
        if said.has(f"{prefix}topic") and said.has(f"{prefix}offset"):
            return prefix
    return None
