"""The pause of a topic: its reason, its time and its scope."""

from __future__ import annotations

from typing import NamedTuple

GUARD = "guard"


class Paused(NamedTuple):
    """A paused topic, as the pages show it.

    Attributes:
        since: epoch ms.
        by: `guard`, or the person who has paused it for the group.
    """

    topic: str
    reason: str
    since: int
    by: str
