"""The calls that report records owed by a row: dead letters and outcomes."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.journal.records import Row

DEAD_LETTERS, OUTCOMES = "dead_letters", "outcomes"
WRITTEN, DROPPED, PAYLOAD_GONE = "written", "dropped", "payload_gone"


class OutgoingListener:
    """Hears nothing. Called in the thread that writes; every method returns at once.

    The first argument is `DEAD_LETTERS` or `OUTCOMES`.
    """

    def done(self, kind: str, what: str, rows: Sequence[Row]) -> None:
        """Hear of rows that wait for no record any more.

        Args:
            what: `WRITTEN`, `DROPPED` (by the settings), or `PAYLOAD_GONE`; the end of a record.
        """

    def waiting(self, kind: str, topic: str, count: int, since_s: float, *, is_ours: bool) -> None:
        """Hear how many rows of a topic wait now.

        Args:
            since_s: the monotonic time of the oldest.
            is_ours: whether this worker writes for the topic.
        """

    def hindered(self, kind: str, topic: str, reason: str) -> None:
        """Hear that records of a topic cannot be written."""
