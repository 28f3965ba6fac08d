"""The listener for topics that this worker pauses."""

from __future__ import annotations


class PauseListener:
    """Hears nothing. Any thread may call; every method returns at once."""

    def paused(self, topic: str, *, reason: str, by: str) -> None:
        """Hear that this worker has paused a topic.

        Args:
            by: `guard`, or the worker that has stopped the group.
        """
