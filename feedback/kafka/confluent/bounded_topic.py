"""A topic of which few bytes are under way at once, and what each record has of them."""

from __future__ import annotations

import threading

from feedback.clock import monotonic_s
from feedback.kafka.confluent.producer_limits import BATCH_BYTES


class BoundedTopic:
    """One topic: its bound, and the bytes that are under way. Safe to share between threads."""

    def __init__(self) -> None:
        self.bound: float = BATCH_BYTES
        self.turn = threading.Lock()
        self._under_way = 0
        self._changed = threading.Condition(threading.Lock())

    def enter(self, share: RecordShare, until_s: float) -> bool:
        """Count a record as soon as few enough bytes are under way, or none are.

        Returns:
            whether that was in time.
        """
        with self._changed:
            is_in = self._changed.wait_for(
                lambda: not self._under_way or self._under_way + share.size <= self.bound,
                max(0.0, until_s - monotonic_s()),
            )
            if is_in:
                share.bound = min(self.bound, BATCH_BYTES)
                self._add(share)
            return is_in

    def count(self, share: RecordShare) -> None:
        """Count a record that is under way already."""
        with self._changed:
            self._add(share)

    def _add(self, share: RecordShare) -> None:
        # No call stands between these two, so no interrupt does.
        share.topic = self
        self._under_way += share.size

    def leave(self, share: RecordShare) -> None:
        """Count a record no longer."""
        with self._changed:
            if share.topic is self:
                share.topic = None
                self._under_way -= share.size
                self._changed.notify_all()

    def set_bound(self, bound: float) -> None:
        """Let so many bytes be under way at once."""
        with self._changed:
            self.bound = bound
            self._changed.notify_all()


class RecordShare:
    """What one record has of the bytes that are under way.

    Args:
        size: the bytes of the record as a batch of its own, at most.

    Attributes:
        bound: larger ones of its topic are in no batch with others, and no batch has more bytes.
        topic: where it counts; None: its topic is not bounded, or it has left.
        is_handed_over: it stays until the end of its record is known.
    """

    __slots__ = ("bound", "is_handed_over", "size", "topic")

    def __init__(self, size: int) -> None:
        self.size = size
        self.bound: float = BATCH_BYTES
        self.topic: BoundedTopic | None = None
        self.is_handed_over = False

    def leave(self) -> None:
        """Count no longer; a second time is none."""
        if (topic := self.topic) is not None:
            topic.leave(self)
