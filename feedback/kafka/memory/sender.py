"""A client's sender, in memory: it tells not sent from unknown as that of kafka-python does."""

from __future__ import annotations

import zlib

from feedback.clock import epoch_ms, monotonic_s
from feedback.kafka.errors import KafkaFault, TopicAbsent, TopicRefused
from feedback.kafka.memory.broker import NOWHERE, MemoryBroker
from feedback.kafka.memory.sent_record import MemoryPending
from feedback.kafka.record_limits import fault_of_record, is_legal, size_of
from feedback.kafka.send_errors import (
    KafkaAway,
    OutOfTime,
    RecordNotSent,
    SenderClosed,
    TopicAway,
    TopicForbidden,
    TopicUnknown,
)
from feedback.kafka.sending import CLOSED, SendingPlan, require_safe_topic
from feedback.records.envelope import Record

HeaderList = list[tuple[str, bytes]]


class KafkaInMemorySender:
    """See `feedback.kafka.sending.KafkaSender`.

    A topic that was known once is known while the broker is away: what is handed over then may
    arrive, and is unknown. Before that it is certainly not sent.

    Args:
        broker: the broker of this address.
        plan: how it sends.
        endures: its records never time out by themselves.
    """

    def __init__(self, broker: MemoryBroker, plan: SendingPlan, *, endures: bool = False) -> None:
        self._broker = broker
        self._plan = plan
        self._endures = endures
        self._is_connected = False
        self._is_closed = False
        self._counts: dict[str, int] = {}
        self._turn = 0
        self._pending: list[MemoryPending] = []

    @property
    def address(self) -> str:
        """Kafka's address."""
        return self._broker.address

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: HeaderList,
        deadline_s: float | None = None,
    ) -> MemoryPending:
        """Hand a record over and return at once when the topic is known.

        Args, Raises: as of `KafkaSender.send`.
        """
        now_s = monotonic_s()
        latest_s = now_s + self._plan.send_timeout_s
        until_s = latest_s if deadline_s is None else min(latest_s, deadline_s)
        if until_s <= now_s:
            raise OutOfTime("no time was left to hand it to Kafka")
        self._connect(until_s)
        if topic not in self._counts:
            self._counts[topic] = self._partitions(topic, until_s - monotonic_s())
        require_safe_topic(self._plan.safety, topic, until_s)
        self._require_takeable(key, value, headers)
        number = self._partition_of(key, self._counts[topic])
        pending = MemoryPending(
            self._broker,
            Record(topic, number, NOWHERE, epoch_ms(), key, value, tuple(headers)),
            deadline_s=until_s,
            endures=self._endures,
            refusals_are_certain=not self._plan.durability.is_idempotent,
        )
        with self._broker.changed:
            self._pending.append(pending)
            self._go_on()
            self._broker.changed.notify_all()
        return pending

    def knows(self, topic: str) -> bool:
        """Return whether a send to the topic would be handed over without asking Kafka."""
        safety = self._plan.safety
        return topic in self._counts and (safety is None or safety.knows(topic))

    def why_wait(self, topic: str, **_: object) -> str | None:
        """Say that no record waits for earlier ones of its topic."""
        return None

    def close(self, timeout_s: float | None = None) -> None:
        """Send the records under way and close for good.

        Args:
            timeout_s: how long that may take; None for `send_timeout_s`.
        """
        limit_s = self._plan.send_timeout_s if timeout_s is None else timeout_s
        limit_s = max(0.0, min(limit_s, self._broker.longest_wait_s))
        with self._broker.changed:
            self._is_closed = True
            self._broker.changed.wait_for(lambda: not self._under_way(), limit_s)
            self._disconnect()

    def _connect(self, until_s: float) -> None:
        if self._is_closed:
            raise SenderClosed(CLOSED)
        if self._is_connected:
            return
        try:
            self._broker.ask("connect", lambda: None, limit_s=until_s - monotonic_s())
        except KafkaFault as error:
            raise self._away(KafkaAway, error) from error
        with self._broker.changed:
            if not self._is_connected:
                self._broker.on_return.append(self._go_on)
            self._is_connected = True

    def _disconnect(self) -> None:
        """Give up what is under way, with the broker's lock."""
        for one in self._pending:
            one.give_up()
        self._pending.clear()
        self._counts.clear()
        if self._is_connected:
            self._broker.on_return.remove(self._go_on)
        self._is_connected = False

    def _partitions(self, topic: str, limit_s: float) -> int:
        """Ask for a topic, which may come while it is waited for.

        Raises:
            RecordNotSent: nothing can be sent there now.
        """
        broker = self._broker
        if not is_legal(topic):
            raise RecordNotSent(f"Kafka refused the record: InvalidTopicError {topic}")
        with broker.changed:
            broker.changed.wait_for(
                lambda: topic in broker.topics or not broker.is_up,
                max(0.0, min(limit_s, broker.longest_wait_s)),
            )
        try:
            return broker.ask(
                "partitions", lambda: len(broker.known(topic, "Describe").logs), limit_s=limit_s
            )
        except TopicRefused as error:
            said = f"Kafka refused the record: {error}"
            raise TopicForbidden(said, topic).because(error.fault) from error
        except TopicAbsent as error:
            raise TopicUnknown(f"Kafka at {self.address} knows no topic {topic!r}") from error
        except KafkaFault as error:
            raise self._away(TopicAway, error) from error

    def _away(self, kind: type[TopicAway], error: KafkaFault) -> TopicAway:
        return kind(f"Kafka at {self.address} is away: {error.words}").because(error.fault)

    def _require_takeable(
        self, key: bytes | None, value: bytes | None, headers: HeaderList
    ) -> None:
        if (fault := fault_of_record(key, value, headers)) is not None:
            raise RecordNotSent(fault)
        if size_of(key, value, headers) > self._plan.max_request_bytes:
            raise RecordNotSent(f"the record is larger than {self._plan.max_request_bytes} bytes")

    def _partition_of(self, key: bytes | None, count: int) -> int:
        self._turn += key is None
        return (self._turn if key is None else zlib.crc32(key)) % count

    def _go_on(self) -> None:
        """Hand over what is under way, in its order; with the broker's lock."""
        for one in self._pending:
            one.hand_over()
            if one.failed:
                self._counts.pop(one.topic, None)  # the topic may be gone
        self._pending = self._under_way()

    def _under_way(self) -> list[MemoryPending]:
        return [one for one in self._pending if not one.is_known and not one.is_over]
