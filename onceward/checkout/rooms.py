"""Where the rooms are."""

from __future__ import annotations

from pathlib import Path

FACE = "onceward"
ROOMS = ("consumer", "feedback", "producer_client", "spark_audit")
ROOT = Path(__file__).resolve().parents[2]


def room_below(name: str) -> str | None:
    """Return the name that a module has by itself; None where it is not that of a room.

    >>> room_below("onceward.consumer.pool")
    'consumer.pool'
    >>> room_below("onceward.commands")
    """
    face, _, below = name.partition(".")
    return below if face == FACE and below.partition(".")[0] in ROOMS else None
