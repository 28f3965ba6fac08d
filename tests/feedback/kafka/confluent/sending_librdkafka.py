"""A producer in the place of librdkafka's, whose records end as a test wants it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from feedback.kafka.values import Partition
from tests.feedback.kafka.confluent.librdkafka import TOPIC, FakeMessage

LIMIT_S = 60.0
GONE = b"gone"


class HandedOver(NamedTuple):
    """A record that was handed over, and who hears of its end."""

    topic: str
    value: bytes
    on_delivery: Callable[[Any, Any], None]


class FakeSendingProducer:
    """Keeps the records that it is given until a test ends them.

    Attributes:
        made: all of them, of which a test forgets those before.
        dropped_by: the thread that dropped each.
        may_drop: dropping one waits for it.
        queue: the records without an end.
        taken: all of its records.
        sent: the values that were handed over to any of them, and their ends, in this order.
        descriptions: each topic's error, or None.
    """

    made: ClassVar[list[FakeSendingProducer]] = []
    dropped_by: ClassVar[list[str]] = []
    sent: ClassVar[list[bytes]] = []
    may_drop: ClassVar[threading.Event] = threading.Event()

    def __init__(self, properties: dict[str, Any]) -> None:
        self.properties = properties
        self.queue: deque[HandedOver] = deque()
        self.taken: list[HandedOver] = []
        self.descriptions: dict[str, KafkaError | None] = {TOPIC: None}
        self.raises: Exception | None = None
        self.asked = 0
        self._told: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._changed = threading.Condition()
        # Those of its own test: it may be dropped in a later one.
        self._may_drop, self._dropped_by, self._sent = self.may_drop, self.dropped_by, self.sent
        # Weak references are of no use where dropping is watched: a test clears the list.
        FakeSendingProducer.made.append(self)

    def __del__(self) -> None:
        self._dropped_by.append(threading.current_thread().name)
        self._may_drop.wait(LIMIT_S)
        self._sent.append(GONE)

    def list_topics(self, name: str, *, timeout: float) -> SimpleNamespace:
        """Describe a topic; nothing is said of one that is not among the descriptions."""
        assert timeout >= 0, "librdkafka would wait for ever"
        self.asked += 1
        if name not in self.descriptions:
            return SimpleNamespace(topics={})
        one = SimpleNamespace(error=self.descriptions[name], partitions={0: None})
        return SimpleNamespace(topics={name: one})

    def produce(self, topic: str, *, value: bytes, on_delivery: Any, **_: object) -> None:
        """Take a record."""
        if self.raises is not None:
            raise self.raises
        self.queue.append(HandedOver(topic, value, on_delivery))
        self.taken.append(self.queue[-1])
        self._sent.append(value)

    def poll(self, timeout_s: float) -> None:
        """Call back for all that has ended, waiting for it at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._told, timeout_s)
        while self._told:
            call, given = self._told.popleft()
            call(*given)

    def flush(self, timeout_s: float) -> None:
        """Call back for what ends in that time."""
        assert timeout_s >= 0, "librdkafka would wait for ever"
        self.poll(timeout_s)

    def end_one(
        self, error: KafkaError | None = None, *, offset: int = -1, place: Partition | None = None
    ) -> None:
        """End the first record."""
        one = self.queue.popleft()
        message = FakeMessage(offset, place or (one.topic, 0))
        self.call(one.on_delivery, error, message)

    def end_all(self, error: KafkaError) -> None:
        """End all records with an error."""
        while self.queue:
            self.end_one(error)

    def call(self, call: Callable[..., None], *given: object) -> None:
        """Call back within the next poll."""
        with self._changed:
            self._told.append((call, given))
            self._changed.notify_all()

    def give_up(self) -> None:
        """Let the next poll raise, as confluent-kafka does of a fatal error."""
        self.call(_raise_fatal)


def _raise_fatal() -> None:
    raise KafkaException(KafkaError(KafkaError._FATAL))


def away() -> KafkaException:
    """Return the error of a question that nobody answers."""
    return KafkaException(KafkaError(KafkaError._TRANSPORT))
