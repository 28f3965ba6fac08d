"""A topic of which few bytes are under way at once, and what each record has of them."""

from __future__ import annotations

import threading
from math import inf

from feedback.clock import monotonic_s
from feedback.doubling import doubled
from feedback.kafka.confluent.producer_limits import BATCH_BYTES

_SHARE = 4
# Between a growth that a refused batch has ended, and the next one.
_PAUSE_S = (30.0, 3600.0)


class BoundedTopic:
    """One topic: its bound, and the bytes that are under way. Safe to share between threads."""

    def __init__(self) -> None:
        self.bound: float = BATCH_BYTES
        self.turn = threading.Lock()
        self._under_way = 0
        self._changed = threading.Condition(threading.Lock())
        # These belong to the thread that hears of the records' ends.
        self._refused_bytes = inf
        self._grows = False
        self._refused_growths = 0
        self._grows_again_s = 0.0

    def enter(self, share: RecordShare, until_s: float) -> bool:
        """Count a record as soon as few enough bytes are under way, or none are.

        Returns:
            whether that was in time.
        """
        with self._changed:
            is_in = self._changed.wait_for(
                lambda: self.has_room(share.size), max(0.0, until_s - monotonic_s())
            )
            if is_in:
                share.bound = min(self.bound, BATCH_BYTES)
                share.growths = self._refused_growths
                self._add(share)
            return is_in

    def has_room(self, size: int) -> bool:
        """Say whether few enough bytes are under way for so many more, or none are."""
        return not self._under_way or self._under_way + size <= self.bound

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

    def refused_alone(self, share: RecordShare) -> None:
        """Note that a record was refused that was in no batch with others."""
        self._refused_bytes = min(self._refused_bytes, share.size)

    def refused_batch(self, share: RecordShare) -> None:
        """Note that a record was refused which may have been in a batch with others."""
        # Those from before the end of a growth tell nothing of the bound since then.
        if share.growths < self._refused_growths:
            return
        # While the bound grows, others of the batch may have come under a later one.
        bound = self.bound if self._grows else share.bound
        if self._grows:
            self._grows = False
            self._refused_growths += 1
            self._grows_again_s = monotonic_s() + doubled(*_PAUSE_S, self._refused_growths)
        self.set_bound(bound / _SHARE)

    def taken(self, share: RecordShare) -> float:
        """Note that a record was acknowledged; return the bound from now on."""
        # In the pause the evidence is kept for its end.
        if share.size >= self._refused_bytes and monotonic_s() >= self._grows_again_s:
            self._refused_bytes = inf
            self._grows = True
        bound = max(self.bound, share.size)
        # Those that came under an earlier bound tell nothing of this one.
        if self._grows and share.bound == self.bound:
            bound = max(bound, 2 * self.bound)
        if bound > self.bound:
            self.set_bound(bound)
        return bound

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
        growths: of its topic's bound, which refused batches had ended before.
        topic: where it counts; None: its topic is not bounded, or it has left.
        is_handed_over: it stays until the end of its record is known.
    """

    __slots__ = ("bound", "growths", "is_handed_over", "size", "topic")

    def __init__(self, size: int) -> None:
        self.size = size
        self.bound: float = BATCH_BYTES
        self.growths = 0
        self.topic: BoundedTopic | None = None
        self.is_handed_over = False

    def leave(self) -> None:
        """Count no longer; a second time is none."""
        if (topic := self.topic) is not None:
            topic.leave(self)
