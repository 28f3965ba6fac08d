"""The outbox's sender, in memory: in the order given, and it never gives a record up by itself."""

from __future__ import annotations

from collections.abc import Collection

from feedback.clock import monotonic_s
from feedback.kafka.durability import PLAIN
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.sender import KafkaInMemorySender
from feedback.kafka.send_errors import RecordNotSent, TopicAway
from feedback.kafka.sending import SendingPlan

# The broker's limit is the one that counts.
_NO_LIMIT_BYTES = 2**30


class MemoryOrderedSender(KafkaInMemorySender):
    """See `feedback.kafka.sending.OrderedSender`.

    Args:
        broker: the broker of this address.
        send_timeout_s: how long a result is waited for.
    """

    def __init__(self, broker: MemoryBroker, send_timeout_s: float) -> None:
        super().__init__(broker, SendingPlan(send_timeout_s, _NO_LIMIT_BYTES, PLAIN), endures=True)

    def look_up(self, topics: Collection[str]) -> dict[str, RecordNotSent]:
        """Return the topics to which nothing can be sent now, each with the reason."""
        if all(map(self.knows, topics)):
            return {}
        limit_s = self._plan.send_timeout_s
        try:
            self._connect(monotonic_s() + limit_s)
        except TopicAway as error:
            return dict.fromkeys(topics, error)
        refused: dict[str, RecordNotSent] = {}
        for topic in topics:
            if not self.knows(topic):
                try:
                    self._counts[topic] = self._partitions(topic, 0.0)
                except RecordNotSent as error:
                    refused[topic] = error
        return refused

    def abandon(self) -> None:
        """Let no unacknowledged record go out any more; the next `send` begins anew."""
        with self._broker.changed:
            self._disconnect()
