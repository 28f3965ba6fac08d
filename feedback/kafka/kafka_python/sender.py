"""The clients' producer: sends single records, and reports how each send ended.

kafka-python's producer retries without end and has no memory bound. So its delivery timeout is
`send_timeout_s`, and callers bound the records in flight. By default it is not the idempotent one:
a duplicate by its retries is a resend like any other, answered by the journal, and one request in
flight for each broker preserves the order. The idempotent producer of 3.0.12 never sends again
after a sent record has timed out (its producer id is reset and not asked for again). So after an
unknown outcome it is replaced; otherwise a broker that stalls for `send_timeout_s` would end the
client.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError, MessageSizeTooLargeError
from kafka.net.compat import KafkaNetClient
from kafka.record.default_records import DefaultRecordBatchBuilder

import feedback.kafka.kafka_python.records
import feedback.kafka.kafka_python.sockets  # noqa: F401 - these mend kafka-python for this process
from feedback.clock import monotonic_s
from feedback.kafka.durability import PLAIN, Durability
from feedback.kafka.kafka_python.failures import fault_lost, why_lost
from feedback.kafka.kafka_python.faults import fault_of, in_words
from feedback.kafka.kafka_python.offers import OfferedHeaders
from feedback.kafka.kafka_python.pending_record import KafkaPythonPending
from feedback.kafka.kafka_python.send_refusals import refusal_of
from feedback.kafka.send_errors import (
    KafkaAway,
    OutOfTime,
    RecordNotSent,
    SenderClosed,
    TopicAway,
    TopicUnknown,
)
from feedback.kafka.sending import CLOSE_GRACE_S, CLOSED, Safety, locked_until, require_safe_topic
from feedback.settings.settings import KafkaSection


class KafkaPythonSender:
    """A producer that is made at the first send, so that no earlier step waits for Kafka.

    Args:
        settings: brokers and security.
        send_timeout_s: no send waits longer, neither here nor inside the producer.
        max_request_bytes: the largest record, key and headers included.
        durability: the acknowledgements that a send waits for.
        safety: knows which topics keep acknowledged records; None: that is not asked.
    """

    def __init__(
        self,
        settings: KafkaSection,
        *,
        send_timeout_s: float,
        max_request_bytes: int,
        durability: Durability = PLAIN,
        safety: Safety | None = None,
    ) -> None:
        self._settings = settings
        self._timeout_s = send_timeout_s
        # How long a topic without metadata may delay a `send`.
        self._block_s = send_timeout_s
        self._max_request_bytes = max_request_bytes
        self._durability = durability
        self._safety = safety
        self._producer: KafkaProducer | None = None
        self._closings: list[threading.Thread] = []
        self._is_closed = False
        self._lock = threading.Lock()

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        deadline_s: float | None = None,
    ) -> KafkaPythonPending:
        """Hand a record to the producer and return at once when the topic is known.

        Args:
            deadline_s: monotonic time of its end, connecting included, if that is sooner than
                `send_timeout_s` from now.

        Raises:
            TopicAway: Kafka is away, or the topic does not exist.
            OutOfTime: `deadline_s` is over. After a handing over its result could not be learned.
            SenderClosed: this sender is closed.
            TopicUnsafe: the topic may lose acknowledged records.
            TopicForbidden: this user may not write there.
            RecordNotSent: the record is too large, or malformed for Kafka.
        """
        now_s = monotonic_s()
        latest_s = now_s + self._timeout_s
        deadline_s = latest_s if deadline_s is None else min(latest_s, deadline_s)
        if deadline_s <= now_s:
            raise OutOfTime("no time was left to hand it to Kafka")
        producer = self._connected(deadline_s)
        asked_s = monotonic_s()
        offered = OfferedHeaders(headers)
        try:
            if producer._metadata.partitions_for_topic(topic) is None:
                # kafka-python would wait for the topic as long as for a whole send.
                left_s = min(self._block_s, deadline_s - asked_s)
                producer._wait_on_metadata(topic, max(0, int(left_s * 1000)))
            require_safe_topic(self._safety, topic, deadline_s)
            future = producer.send(topic, key=key, value=value, headers=offered)
        except (KafkaError, ValueError, TypeError, KeyError, RuntimeError) as error:
            if offered.may_be_stored:
                # A signal handler's, which is its caller's: it says nothing of the record.
                raise
            raise self._why_not_sent(error, producer, topic, asked_s) from error
        return KafkaPythonPending(
            future,
            deadline_s,
            lambda: self._replace(producer),
            why=lambda: fault_lost(_net_of(producer), since_s=asked_s),
            refusals_are_certain=not self._durability.is_idempotent,
        )

    def _why_not_sent(
        self, error: Exception, producer: KafkaProducer, topic: str, asked_s: float
    ) -> RecordNotSent:
        """Return our error for a record that was given to no batch."""
        if isinstance(error, MessageSizeTooLargeError):
            return RecordNotSent(f"the record is larger than {self._max_request_bytes} bytes")
        if isinstance(error, KafkaError):
            return refusal_of(error) or self._why_no_metadata(producer, topic, asked_s)
        if isinstance(error, ValueError | TypeError):
            return RecordNotSent(str(error))
        # The metadata changed during the call.
        return TopicAway(f"topic {topic!r}: {type(error).__name__} {error}")

    @property
    def address(self) -> str:
        """Kafka's address."""
        return self._settings.bootstrap_servers

    def knows(self, topic: str) -> bool:
        """Return whether a send to the topic would be handed over without asking Kafka."""
        producer = self._producer
        if producer is None or producer._metadata.partitions_for_topic(topic) is None:
            return False
        return self._safety is None or self._safety.knows(topic)

    def why_wait(self, topic: str, **_: object) -> str | None:
        """Say that no record waits for earlier ones of its topic."""
        return None

    def _replace(self, producer: KafkaProducer) -> None:
        """Let the next send make a new producer: this idempotent one is of no use any more."""
        if not self._durability.is_idempotent or self._producer is not producer:
            return  # without the lock: its owner may be connecting already
        with self._lock:
            if self._producer is not producer:
                return
            self._producer = None
            # Its other records have until then, and their senders learn their results.
            closing = threading.Thread(
                target=_close,
                args=(producer, self._timeout_s + CLOSE_GRACE_S),
                name="onceward-closing",
                daemon=True,
            )
            self._closings = [one for one in self._closings if one.is_alive()] + [closing]
            closing.start()

    def _connected(self, deadline_s: float) -> KafkaProducer:
        if self._producer is not None:
            return self._producer
        # The first thread connects; the others wait for it no longer than for Kafka itself.
        with locked_until(self._lock, deadline_s, address=self.address):
            if self._was_closed():
                raise SenderClosed(CLOSED)
            if self._producer is None:
                producer = self._connect(deadline_s)
                if self._was_closed():
                    producer.close(timeout=0)
                    raise SenderClosed(CLOSED)
                self._producer = producer
            return self._producer

    def _was_closed(self) -> bool:
        # A closing that waited long enough for the lock goes on without it.
        return self._is_closed

    def _connect(self, deadline_s: float) -> KafkaProducer:
        timeout_ms = int(self._timeout_s * 1000)
        network: list[KafkaNetClient] = []

        def connect(**given: Any) -> KafkaNetClient:
            network.append(KafkaNetClient(**given))
            return network[0]

        try:
            return KafkaProducer(
                **self._settings.connection(),
                kafka_client=connect,
                **self._delivery(timeout_ms),
                bootstrap_timeout_ms=max(1, int((deadline_s - monotonic_s()) * 1000)),
                max_request_size=self._max_request_bytes,
                linger_ms=self._durability.linger_ms,
                batch_size=65_536,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                reconnect_backoff_max_ms=1000,
            )
        except (KafkaError, ValueError, OSError) as error:
            # A producer whose constructor fails leaves its sockets open.
            for one in network:
                one.close()
            if isinstance(error, KafkaError):
                raise self._away(KafkaAway, error) from error
            # For example an invalid address, or a certificate that cannot be read.
            raise TopicAway(f"the [kafka] settings do not work: {error}") from error

    def _delivery(self, timeout_ms: int) -> dict[str, Any]:
        """Return kafka-python's options for acknowledgements and retries."""
        return {
            "acks": self._durability.acks,
            "enable_idempotence": self._durability.is_idempotent,
            "max_in_flight_requests_per_connection": self._durability.in_flight,
            "delivery_timeout_ms": timeout_ms,
            "request_timeout_ms": max(100, timeout_ms - 100),
            "max_block_ms": int(self._block_s * 1000),
        }

    def _why_no_metadata(self, producer: KafkaProducer, topic: str, asked_s: float) -> TopicAway:
        # kafka-python raises the same error for both; no public call says whether Kafka answered.
        if producer._metadata._last_successful_refresh_ms >= asked_s * 1000:
            return TopicUnknown(f"Kafka at {self.address} knows no topic {topic!r}")
        return self._silent(producer, asked_s)

    def _silent(self, producer: KafkaProducer, asked_s: float) -> TopicAway:
        net = _net_of(producer)
        reason = why_lost(net, since_s=asked_s) or "it does not answer"
        why = fault_lost(net, since_s=asked_s)
        is_away = "" if why else " is away"
        return TopicAway(f"Kafka at {self.address}{is_away}: {reason}").because(why)

    def _away(self, kind: type[TopicAway], error: KafkaError) -> TopicAway:
        if (why := fault_of(error, mechanism=self._settings.sasl_mechanism)) is not None:
            return kind(f"Kafka at {self.address}: {why.said}").because(why)
        return kind(f"Kafka at {self.address} is away: {in_words(error)}")

    def close(self, timeout_s: float | None = None) -> None:
        """Send the records under way and close for good.

        Args:
            timeout_s: how long that may take; None for `send_timeout_s`.
        """
        longest_s = self._timeout_s + CLOSE_GRACE_S if timeout_s is None else timeout_s
        # Another thread may be connecting, for as long as a send may take.
        is_mine = self._lock.acquire(timeout=longest_s)
        producer, self._producer, self._is_closed = self._producer, None, True
        if is_mine:
            self._lock.release()
        until_s = monotonic_s() + longest_s
        if producer is not None:
            _close(producer, longest_s)
        for closing in self._closings:
            closing.join(max(0.0, until_s - monotonic_s()))


def size_of_counted(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
) -> int:
    """Return how many bytes kafka-python counts for a record, at most."""
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers))


def _net_of(producer: KafkaProducer) -> Any:
    return producer._metadata._manager._net


def _close(producer: KafkaProducer, longest_s: float) -> None:
    # Its own closing waits that long for the records, and then once more for its thread. A record
    # that is not acknowledged in time was reported to its sender as unknown.
    deadline_s = monotonic_s() + longest_s
    left_s = 0.0
    try:
        producer.flush(timeout=longest_s)
        left_s = max(0.0, deadline_s - monotonic_s())
    except KafkaError:
        # Not in time, or a batch was split meanwhile, of which a flush knows nothing further.
        # No public call ends it now: its closing would flush again, raise, and leave its thread.
        producer._sender.force_close()
        left_s = CLOSE_GRACE_S
    with contextlib.suppress(KafkaTimeoutError):
        producer.close(timeout=left_s)
