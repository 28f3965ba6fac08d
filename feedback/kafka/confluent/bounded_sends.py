"""Topics of which few bytes are under way at once, since larger batches were refused as too large.

librdkafka fills a batch up to `BATCH_BYTES`, whatever a topic takes. A topic that takes less
refuses a batch of records each of which it would take alone, and Kafka refuses a batch whole. No
setting bounds the batches of one topic, so the bytes under way do: no batch has more.

- A refused record that is larger than its topic's bound was alone in its batch. It says nothing
  about batches, so records that no topic of that size takes make nothing slower.
- Any other refused record proves that its topic takes less than the bound, which becomes a quarter:
  still more than a quarter of the bytes that the topic takes. So that happens a few times at most.
- An acknowledged record that is larger than the bound proves that the topic takes its size at once.
  The bound grows to it.
- An acknowledged record as large as one that was refused alone proves that `max.message.bytes` was
  raised meanwhile. The bound doubles with each acknowledgement, until it is no bound any more or a
  batch is refused: one, of a few records. A while must then pass before the next growth. It is
  longer each time, since the sizes of a topic that the broker compresses prove nothing.

All this decides when a record is handed over, and never which word is said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from feedback.clock import monotonic_s
from feedback.kafka.confluent.bounded_topic import BoundedTopic, RecordShare
from feedback.kafka.confluent.pending_record import ConfluentPending
from feedback.kafka.confluent.producer_limits import BATCH_BYTES
from feedback.kafka.send_errors import OutOfTime


class BoundedSends:
    """The topics of one sender. Safe to share between threads."""

    def __init__(self) -> None:
        self._topics: dict[str, BoundedTopic] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def hand_over(
        self,
        topic: str,
        size: int,
        give: Callable[[RecordShare], ConfluentPending | None],
        *,
        until_s: float,
    ) -> ConfluentPending:
        """Hand a record over as soon as few enough bytes of its topic are under way.

        Args:
            size: the bytes of the record as a batch of its own, at most.
            give: hands it over; None where it has found that its share `is_past`.

        Raises:
            OutOfTime: that is not so at this monotonic time; nothing was handed over.
        """
        while True:
            found = self._topics.get(topic)
            if found is None:
                pending = give(RecordShare(size))
            else:
                pending = _in_turn(found, topic, RecordShare(size), give, until_s=until_s)
            if pending is not None:
                return pending

    def why_wait(self, topic: str, size: int) -> str | None:
        """Say why a record of so many bytes would wait; None: it would not."""
        found = self._topics.get(topic)
        return None if found is None or found.has_room(size) else _reason(topic)

    def is_past(self, topic: str, share: RecordShare) -> bool:
        """Whether a topic was bounded, or is no longer, since a record has got its share.

        Whoever hands it over asks in the hold of the lock that `refused` is called in. Else it
        would be in a batch with others and not be counted.
        """
        return self._topics.get(topic) is not share.topic

    def refused(
        self, pending: ConfluentPending, beside: Callable[[], Iterable[ConfluentPending]]
    ) -> None:
        """Note that a record was refused as too large. Meanwhile no record is handed over.

        Args:
            beside: returns the records of its topic that are under way.
        """
        share, found = pending.share, self._topics.get(pending.topic)
        if share.size > share.bound:
            if found is not None:
                found.refused_alone(share)
            return
        if found is None:
            found = BoundedTopic()
            # They were handed over without a bound: the next ones share no batch with them.
            for one in beside():
                found.count(one.share)
            self._topics[pending.topic] = found
        # The others of its batch tell nothing new.
        if share.bound <= found.bound:
            found.refused_batch(share)

    def taken(self, pending: ConfluentPending) -> None:
        """Note that a record was acknowledged."""
        found = self._topics.get(pending.topic)
        if found is not None and found.taken(pending.share) >= BATCH_BYTES:
            del self._topics[pending.topic]
            # Whoever waits has it still.
            found.set_bound(inf)


def _in_turn(
    found: BoundedTopic,
    topic: str,
    share: RecordShare,
    give: Callable[[RecordShare], ConfluentPending | None],
    *,
    until_s: float,
) -> ConfluentPending | None:
    # Without turns a large one would wait as long as small ones come.
    if not found.turn.acquire(timeout=max(0.0, until_s - monotonic_s())):
        raise _out_of_time(topic)
    try:
        if not found.enter(share, until_s):
            raise _out_of_time(topic)
        return give(share)
    finally:
        try:
            if not share.is_handed_over:
                share.leave()
        finally:
            found.turn.release()


def _out_of_time(topic: str) -> OutOfTime:
    return OutOfTime(_reason(topic))


def _reason(topic: str) -> str:
    said = f"earlier records of topic {topic!r} took all its time"
    return f"{said}: few bytes of it are under way at once"
