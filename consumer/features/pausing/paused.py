"""A topic that is paused, as the pages show it: for readers, which need nothing of a worker."""

from __future__ import annotations

from typing import NamedTuple

GUARD = "guard"


class PausedTopic(NamedTuple):
    """A paused topic, as the pages show it.

    Attributes:
        by: `guard`, or the person who has paused it for the group.
    """

    topic: str
    reason: str
    since: int
    by: str
