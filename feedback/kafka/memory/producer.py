"""A producer of a worker's own records, in memory.

A record that finds the broker standing still arrives when that goes on, heard of or not; one that
finds it down is handed over again as long as somebody waits for its result.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.errors import KafkaFault
from feedback.kafka.memory.broker import NOWHERE, MemoryBroker
from feedback.kafka.outgoing import NotAcknowledged, Outgoing, RecordRefused
from feedback.kafka.record_limits import is_legal
from feedback.records.envelope import Record


class MemoryProducer:
    """See `feedback.kafka.producer.BatchProducer`.

    Args:
        broker: the broker of this address.
        timeout_s: how long to wait for the connection, for a topic, and for an acknowledgement.
    """

    def __init__(self, broker: MemoryBroker, timeout_s: float) -> None:
        self._broker = broker
        self._timeout_s = timeout_s
        self._counts: dict[str, int] = {}
        self._turn = 0
        self._pending: list[MemorySent] = []
        with _unacknowledged():
            broker.ask("connect", lambda: None, limit_s=timeout_s)

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; by the last answer while the broker is away."""
        if not is_legal(topic):
            raise RecordRefused(f"InvalidTopicError {topic}")
        if topic in self._counts and not self._broker.is_up:
            return self._counts[topic]
        with _unacknowledged():
            self._counts[topic] = self._broker.ask(
                "partitions",
                lambda: len(self._broker.known(topic, "Write").logs),
                limit_s=self._timeout_s,
            )
        return self._counts[topic]

    def send(self, record: Outgoing, partition: int | None) -> MemorySent:
        """Hand a record over."""
        _require_well_formed(record)
        count = self._counts.get(record.topic) or self.partitions(record.topic)
        number = self._partition_of(record.key, count) if partition is None else partition
        stored = Record(
            record.topic, number, NOWHERE, epoch_ms(), record.key, record.value, record.headers
        )
        sent = MemorySent(self._broker, stored, expires_s=monotonic_s() + self._timeout_s)
        self._pending.append(sent)
        # In their order: earlier ones may have found the broker away.
        for one in self._pending:
            one.hand_over(0.0)
        self._forget_known()
        return sent

    def _forget_known(self) -> None:
        self._pending = [one for one in self._pending if one.is_pending]

    def _partition_of(self, key: bytes | None, count: int) -> int:
        self._turn += key is None
        return (self._turn if key is None else zlib.crc32(key)) % count

    def flush(self, timeout_s: float) -> None:
        """Return when the result of each is known, or the time is over."""
        until_s = monotonic_s() + timeout_s
        for one in self._pending:
            if not one.hand_over(max(0.0, until_s - monotonic_s())):
                break  # the others would wait as long
        self._forget_known()

    def close(self, timeout_s: float) -> None:
        """Close the connection."""
        self.flush(timeout_s)
        for one in self._pending:
            one.give_up()


class MemorySent:
    """A record under way.

    Args:
        expires_s: the monotonic time after which it is not handed over any more.
    """

    def __init__(self, broker: MemoryBroker, record: Record, *, expires_s: float) -> None:
        self._broker = broker
        self._record = record
        self._expires_s = expires_s
        self._is_carried_out = False
        self.is_known = False
        self._error: KafkaUnavailable | None = None

    @property
    def is_pending(self) -> bool:
        """Whether it may still be handed over."""
        return not self.is_known and monotonic_s() <= self._expires_s

    def hand_over(self, limit_s: float) -> bool:
        """Hand it over, unless its result is known; return whether that is known now."""
        left_s = min(limit_s, self._expires_s - monotonic_s())
        if not self.is_known and left_s >= 0:
            with suppress(KafkaFault):
                self._broker.ask("send", self._store, limit_s=left_s, changes=True)
        return self.is_known

    def _store(self) -> None:
        """Write it once, with the broker's lock; its result is heard where the broker answers."""
        if self._is_carried_out:
            return
        self._is_carried_out = True
        try:
            self._broker.known(self._record.topic, "Write")
            self._broker.store(self._record)
        except KafkaFault as error:
            self._error = NotAcknowledged(str(error)).because(error.fault)
        except KafkaUnavailable as error:
            self._error = error
        self.is_known = self._broker.is_up

    def give_up(self) -> None:
        """Hand it over no more."""
        self._expires_s = float("-inf")

    def result(self, timeout_s: float) -> KafkaUnavailable | None:
        """Return None when Kafka has it, else the error."""
        if self.hand_over(timeout_s):
            return self._error
        return NotAcknowledged(f"Kafka at {self._broker.address} did not acknowledge in time")


@contextmanager
def _unacknowledged() -> Iterator[None]:
    try:
        yield
    except KafkaFault as error:
        raise NotAcknowledged(str(error)).because(error.fault) from error


def _require_well_formed(record: Outgoing) -> None:
    """Refuse a record that is not of bytes.

    Raises:
        RecordRefused: a part of it has another type.
    """
    parts = (record.key, record.value, *(value for _, value in record.headers))
    if any(one is not None and not isinstance(one, bytes) for one in parts):
        raise RecordRefused("TypeError a key, a value or a header is not of bytes")
