"""Topics of which few bytes are under way at once, since larger batches were refused as too large.

librdkafka fills a batch up to `BATCH_BYTES`, whatever a topic takes. A topic that takes less
refuses a batch of records each of which it would take alone, and Kafka refuses a batch whole. No
setting bounds the batches of one topic, so the bytes under way do: no batch has more.

- A refused record that is larger than its topic's bound was alone in its batch. It says nothing
  about batches, so records that no topic of that size takes make nothing slower.
- Any other refused record proves that its topic takes less than the bound, which becomes a quarter:
  still more than a quarter of the bytes that the topic takes. So that happens a few times at most.
- An acknowledged record that is larger than the bound proves that the topic takes its size at once,
  as after `max.message.bytes` was raised. The bound grows to it.

All this decides when a record is handed over, and never which word is said of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from math import inf

from feedback.clock import monotonic_s
from feedback.kafka.confluent.pending_record import ConfluentPending
from feedback.kafka.send_errors import OutOfTime

BATCH_BYTES = 65_536
_SHARE = 4


class _BoundedTopic:
    """One topic: its bound, and the bytes that are under way."""

    def __init__(self) -> None:
        self.bound: float = BATCH_BYTES
        self.turn = threading.Lock()
        self._under_way = 0
        self._changed = threading.Condition(threading.Lock())

    def enter(self, size: int, until_s: float) -> float | None:
        """Count a record once there is room for it, or none is under way.

        Returns:
            the bound under which it has entered; None where that was not in time.
        """
        with self._changed:
            has_room = self._changed.wait_for(
                lambda: not self._under_way or self._under_way + size <= self.bound,
                max(0.0, until_s - monotonic_s()),
            )
            if not has_room:
                return None
            self._under_way += size
            return self.bound

    def count(self, pending: ConfluentPending) -> None:
        """Count a record that is under way already."""
        with self._changed:
            self._under_way += pending.size
        pending.when_known(partial(self.leave, pending.size))

    def leave(self, size: int) -> None:
        """Note that the end of a record is known."""
        with self._changed:
            self._under_way -= size
            self._changed.notify_all()

    def set_bound(self, bound: float) -> None:
        """Let so many bytes be under way at once."""
        with self._changed:
            self.bound = bound
            self._changed.notify_all()


class BoundedSends:
    """The topics of one sender. Safe to share between threads.

    The size of a record is what it takes as a batch of its own, at most.
    """

    def __init__(self) -> None:
        self._topics: dict[str, _BoundedTopic] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def hand_over(
        self, topic: str, size: int, give: Callable[[float], ConfluentPending], *, until_s: float
    ) -> ConfluentPending:
        """Hand a record over as soon as its topic has room for it.

        Args:
            give: hands it over, under this bound of its topic.

        Raises:
            OutOfTime: there is no room at this monotonic time; nothing was handed over.
        """
        found = self._topics.get(topic)
        if found is None:
            return give(BATCH_BYTES)
        # Without turns a large one would wait as long as small ones come.
        if not found.turn.acquire(timeout=max(0.0, until_s - monotonic_s())):
            raise _out_of_time(topic)
        try:
            if (bound := found.enter(size, until_s)) is None:
                raise _out_of_time(topic)
            try:
                pending = give(min(bound, BATCH_BYTES))
            except BaseException:
                found.leave(size)
                raise
            pending.when_known(partial(found.leave, size))
            return pending
        finally:
            found.turn.release()

    def refused(
        self, pending: ConfluentPending, beside: Callable[[], Iterable[ConfluentPending]]
    ) -> None:
        """Note that a record was refused as too large.

        Args:
            beside: returns the records of its topic that are under way.
        """
        if pending.size > pending.bound:
            return
        found = self._topics.get(pending.topic)
        if found is None:
            found = _BoundedTopic()
            # They were handed over without a bound: the next ones share no batch with them.
            for one in beside():
                found.count(one)
            self._topics[pending.topic] = found
        # The others of its batch tell nothing new.
        if pending.bound <= found.bound:
            found.set_bound(pending.bound / _SHARE)

    def taken(self, pending: ConfluentPending) -> None:
        """Note that a record was acknowledged."""
        found = self._topics.get(pending.topic)
        if found is None or pending.size <= found.bound:
            return
        if pending.size < BATCH_BYTES:
            found.set_bound(pending.size)
        else:
            del self._topics[pending.topic]
            # Whoever waits has it still.
            found.set_bound(inf)


def _out_of_time(topic: str) -> OutOfTime:
    return OutOfTime(f"earlier records of topic {topic!r} took all its time: it takes few at once")
