"""Topics whose records are sent one at a time, since batches of theirs were refused as too large.

librdkafka fills a batch up to 64 KiB, whatever a topic takes. A topic that takes less refuses a
batch of records each of which it would take alone, and Kafka refuses a batch whole. So once that
has happened, the next record of the topic waits until the end of the last one is known.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from feedback.clock import monotonic_s
from feedback.kafka.confluent.pending_record import ConfluentPending
from feedback.kafka.send_errors import OutOfTime


@dataclass(slots=True)
class _LastSend:
    turn: threading.Lock = field(default_factory=threading.Lock)
    pending: ConfluentPending | None = None


class SingleSends:
    """The topics of one sender. Safe to share between threads."""

    def __init__(self) -> None:
        self._topics: dict[str, _LastSend] = {}

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    def add(self, topic: str) -> None:
        """Send the records of a topic one at a time from now on."""
        self._topics.setdefault(topic, _LastSend())

    def hand_over(
        self, topic: str, give: Callable[[], ConfluentPending], *, until_s: float
    ) -> ConfluentPending:
        """Hand a record over, for these topics as soon as the last one's end is known.

        Raises:
            OutOfTime: that is not known at this monotonic time; nothing was handed over.
        """
        last = self._topics.get(topic)
        if last is None:
            return give()
        if not last.turn.acquire(timeout=max(0.0, until_s - monotonic_s())):
            raise _out_of_time(topic)
        try:
            if last.pending is not None and not last.pending.is_settled(until_s - monotonic_s()):
                raise _out_of_time(topic)
            last.pending = give()
            return last.pending
        finally:
            last.turn.release()


def _out_of_time(topic: str) -> OutOfTime:
    return OutOfTime(f"earlier records of topic {topic!r}, sent one at a time, took all its time")
