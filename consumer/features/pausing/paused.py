"""The pause of a topic: its reason, its time and its scope."""

from __future__ import annotations

from typing import NamedTuple

GUARD = "guard"


class Paused(NamedTuple):
    """A topic that is paused, for who asks.

    Attributes:
        since: epoch ms.
        by: `guard`, or who has paused it for the group.
    """

    topic: str
    reason: str
    since: int
    by: str
