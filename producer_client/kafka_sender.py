"""The one place of this room that knows kafka-python: sending a record, and how it ended.

kafka-python's producer retries without end and has no memory bound: so its delivery timeout is
`send_timeout_s`, and callers bound what is in flight. It is not the idempotent one: in 3.0.12 that
one never sends again after a sent record has run out of time (its producer id is reset and not
asked for again), so that a broker which stalls for `send_timeout_s` would end the client. What its
retries may duplicate is a resend like any other, answered by the journal; one request in flight for
each broker keeps them in order.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafka import KafkaProducer
from kafka.errors import (
    AuthorizationError,
    InvalidRecordError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)
from kafka.net.compat import KafkaNetClient

import feedback.kafka_sockets  # noqa: F401 - mends kafka-python for this process
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.settings import KafkaSection

# A record runs out of time inside the producer a moment after its sender was told.
CLOSE_GRACE_S = 0.5

CLOSED = "the client is closed: make a new one"

# A broker that answers with one of these has not stored the record.
_CERTAINLY_REFUSED = (
    AuthorizationError,
    InvalidRecordError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)


class RecordNotSent(KafkaUnavailable):
    """The record certainly did not reach Kafka."""


class TopicAway(RecordNotSent):
    """Kafka or the topic is away: what is sent there next would only wait as long."""


class RecordUnknown(KafkaUnavailable):
    """The record may or may not be in Kafka."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where Kafka stored a record."""

    topic: str
    partition: int
    offset: int


class PendingRecord:
    """A record on its way to Kafka."""

    def __init__(self, future: Any, deadline_s: float) -> None:
        self._future = future
        self._deadline_s = deadline_s

    def result(self) -> Coordinates:
        """Return where the record lies, waiting no longer than `send_timeout_s` after the send.

        Raises:
            RecordNotSent: the broker refused it.
            RecordUnknown: nobody answered in time, or the connection broke.
        """
        try:
            stored = self._future.get(timeout=max(0.001, self._deadline_s - monotonic_s()))
        except _CERTAINLY_REFUSED as error:
            raise RecordNotSent(f"Kafka refused the record: {_in_words(error)}") from error
        except KafkaError as error:
            raise RecordUnknown(f"Kafka did not acknowledge: {_in_words(error)}") from error
        return Coordinates(stored.topic, stored.partition, stored.offset)

    async def ending(self) -> Coordinates:
        """Return `result`, where nothing else waits meanwhile: it blocks."""
        return self.result()

    def take_back(self) -> bool:
        """Say that a record that was handed over cannot be taken back."""
        return False


class KafkaSender:
    """A producer that is made at the first send, so that nothing waits for Kafka before.

    Args:
        settings: brokers and security.
        send_timeout_s: no send waits longer, neither here nor inside the producer.
        max_request_bytes: the largest record, key and headers included.
    """

    def __init__(
        self, settings: KafkaSection, *, send_timeout_s: float, max_request_bytes: int
    ) -> None:
        self._settings = settings
        self._timeout_s = send_timeout_s
        self._max_request_bytes = max_request_bytes
        self._producer: KafkaProducer | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
    ) -> PendingRecord:
        """Hand a record to the producer and return at once when the topic is known.

        Raises:
            TopicAway: Kafka is away, the topic does not exist, or this sender is closed.
            RecordNotSent: the record is too large, or not what Kafka takes.
        """
        asked_s = monotonic_s()
        deadline_s = asked_s + self._timeout_s
        producer = self._connected(deadline_s)
        try:
            future = producer.send(topic, key=key, value=value, headers=headers)
        except MessageSizeTooLargeError as error:
            limit = self._max_request_bytes
            raise RecordNotSent(f"the record is larger than {limit} bytes") from error
        except KafkaError as error:
            raise TopicAway(self._why_no_metadata(producer, topic, asked_s)) from error
        except (ValueError, TypeError) as error:
            raise RecordNotSent(str(error)) from error
        return PendingRecord(future, deadline_s)

    def _connected(self, deadline_s: float) -> KafkaProducer:
        if self._producer is not None:
            return self._producer
        # The first thread connects; whoever waits for it waits no longer than for Kafka itself.
        with self._locked_until(deadline_s):
            if self._was_closed():
                raise TopicAway(CLOSED)
            if self._producer is None:
                producer = self._connect(deadline_s)
                if self._was_closed():
                    producer.close(timeout=0)
                    raise TopicAway(CLOSED)
                self._producer = producer
            return self._producer

    def _was_closed(self) -> bool:
        # A closing that waited long enough for the lock goes on without it.
        return self._is_closed

    @contextlib.contextmanager
    def _locked_until(self, deadline_s: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(0.0, deadline_s - monotonic_s())):
            raise TopicAway(self._away("no connection in time"))
        try:
            yield
        finally:
            self._lock.release()

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
                acks="all",
                enable_idempotence=False,
                max_in_flight_requests_per_connection=1,
                delivery_timeout_ms=timeout_ms,
                request_timeout_ms=max(100, timeout_ms - 100),
                max_block_ms=timeout_ms,
                bootstrap_timeout_ms=max(1, int((deadline_s - monotonic_s()) * 1000)),
                max_request_size=self._max_request_bytes,
                linger_ms=0,
                batch_size=65_536,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                reconnect_backoff_max_ms=1000,
            )
        except (KafkaError, ValueError, OSError) as error:
            # The producer leaves its sockets open when it does not get so far as to be one.
            for one in network:
                one.close()
            if isinstance(error, KafkaError):
                raise TopicAway(self._away(_in_words(error))) from error
            # An address that is none, a certificate that cannot be read.
            raise TopicAway(f"the [kafka] settings do not work: {error}") from error

    def _why_no_metadata(self, producer: KafkaProducer, topic: str, asked_s: float) -> str:
        # kafka-python tells both with the same error; nothing public says whether Kafka answered.
        if producer._metadata._last_successful_refresh_ms >= asked_s * 1000:
            return f"Kafka at {self._settings.bootstrap_servers} knows no topic {topic!r}"
        return self._away("it does not answer")

    def _away(self, why: str) -> str:
        return f"Kafka at {self._settings.bootstrap_servers} is away: {why}"

    def close(self, timeout_s: float | None = None) -> None:
        """Send what is under way and close for good.

        Args:
            timeout_s: how long that may take; None for `send_timeout_s`.
        """
        longest_s = self._timeout_s + CLOSE_GRACE_S if timeout_s is None else timeout_s
        # Somebody may be connecting, for as long as a send may take.
        is_mine = self._lock.acquire(timeout=longest_s)
        producer, self._producer, self._is_closed = self._producer, None, True
        if is_mine:
            self._lock.release()
        if producer is not None:
            _close(producer, longest_s)


def _close(producer: KafkaProducer, longest_s: float) -> None:
    # Its own closing waits that long for the records, and then once more for its thread. What is
    # not acknowledged in time was told to its sender as unknown.
    deadline_s = monotonic_s() + longest_s
    with contextlib.suppress(KafkaTimeoutError):
        producer.flush(timeout=longest_s)
    with contextlib.suppress(KafkaTimeoutError):
        producer.close(timeout=max(0.0, deadline_s - monotonic_s()))


def _in_words(error: KafkaError) -> str:
    detail = str(error.args[0]).splitlines()[0] if error.args and error.args[0] else ""
    return f"{type(error).__name__} {detail}".strip()
