"""Writes a worker's own records, in batches: each is acknowledged, or the reason is named.

Its producer is not the idempotent one, which in kafka-python 3.0.12 never sends again after a
record has timed out. A record that is written twice (a wake-up, a dead letter) does no harm here.
Batches are compressed, so that a record that came compressed fits into a topic of the same limit
again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kafka import KafkaProducer
from kafka.errors import (
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)
from kafka.serializer import Serializer

import feedback.kafka.kafka_python.records  # noqa: F401 - mends kafka-python for this process
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable, SecurityFault
from feedback.kafka.kafka_python.failures import fault_lost
from feedback.kafka.kafka_python.faults import fault_of, in_words
from feedback.kafka.kafka_python.sockets import closed_at_a_fault
from feedback.settings.settings import KafkaSection

# The broker's limit is the one that counts, and it refuses that one record alone.
ANY_SIZE_BYTES = 2**30
# Records that are written together go in few batches; the last ones do not wait for it.
LINGER_MS = 50
BATCH_BYTES = 65_536

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_REFUSED = (InvalidRecordError, PolicyViolationError)


class Outgoing(NamedTuple):
    """A record to be written.

    Args:
        partition: its partition, if the topic has it; otherwise, and with None, the key decides.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def size_bytes(self) -> int:
        """About its share of a batch, in bytes."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers

    def __repr__(self) -> str:
        return f"Outgoing({self.topic})"  # no payload in a log


class NotAcknowledged(KafkaUnavailable):
    """No acknowledgement came in time: Kafka, the topic or its leader is away."""


class RecordRefused(KafkaUnavailable):
    """The broker never takes this record as it is."""


class RecordTooLarge(RecordRefused):
    """The record is larger than the topic's limit."""


class KafkaWriter:
    """Writes records over a connection that is made at the first. Belongs to one thread.

    Args:
        settings: brokers and security.
        timeout_s: how long to wait for the connection, for a topic, and for the acknowledgements.
    """

    def __init__(self, settings: KafkaSection, *, timeout_s: float = 5.0) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._producer: Any = None

    def prepare(self, topics: Iterable[str]) -> None:
        """Connect and load these topics' metadata, so that the first record need not wait.

        Raises:
            KafkaUnavailable: Kafka or one of them is away.
        """
        try:
            producer = self._connected()
            for topic in topics:
                producer.partitions_for(topic)
        except KafkaError as error:
            raise self._away(error) from error

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]:
        """Return for each record None when Kafka has it, else the error.

        After `RecordRefused` Kafka does not have it; after any other error it may.
        """
        away: dict[str, KafkaUnavailable] = {}
        handed = [self._hand_over(one, away) for one in records]
        # Counted from here: the handing over may have waited for a topic that is away.
        deadline_s = monotonic_s() + self._timeout_s
        if self._producer is not None:
            # The result of each is reported below; a batch that had to be split is not known here.
            with contextlib.suppress(KafkaError):
                self._producer.flush(timeout=self._timeout_s)
        return [
            one if isinstance(one, KafkaUnavailable) else self._acknowledged(one, deadline_s)
            for one in handed
        ]

    def close(self, timeout_s: float = 1.0) -> None:
        """Close the connection; a record without an acknowledgement may or may not be written."""
        producer, self._producer = self._producer, None
        if producer is not None:
            # Its closing flushes first, and raises if that takes too long.
            with contextlib.suppress(KafkaTimeoutError):
                producer.close(timeout=timeout_s)

    def _hand_over(self, one: Outgoing, away: dict[str, KafkaUnavailable]) -> Any:
        """Return the future of a record, or the error of its topic, which is asked for once."""
        if one.topic in away:
            return away[one.topic]
        try:
            return self._send(self._connected(), one)
        except KafkaUnavailable as error:
            away[one.topic] = error
        except KafkaError as error:
            away[one.topic] = self._away(error)
        except (ValueError, TypeError) as error:
            return RecordRefused(f"{type(error).__name__} {error}")
        return away[one.topic]

    def _send(self, producer: Any, one: Outgoing) -> Any:
        partition = one.partition
        if partition is not None and partition not in producer.partitions_for(one.topic):
            partition = None
        # A tombstone without a key is a record like any other; kafka-python takes it only in this
        # form.
        value = _NULL if one.key is None and one.value is None else one.value
        return producer.send(
            one.topic, key=one.key, value=value, headers=list(one.headers), partition=partition
        )

    def _acknowledged(self, future: Any, deadline_s: float) -> KafkaUnavailable | None:
        try:
            future.get(timeout=max(0.001, deadline_s - monotonic_s()))
        except _TOO_LARGE as error:
            return RecordTooLarge(in_words(error))
        except _REFUSED as error:
            return RecordRefused(f"Kafka refused the record: {in_words(error)}")
        except KafkaError as error:
            return self._away(error)
        return None

    def _connected(self) -> Any:
        if self._producer is not None:
            return self._producer
        timeout_ms = int(self._timeout_s * 1000)
        try:
            with closed_at_a_fault() as connect:
                self._producer = KafkaProducer(
                    **self._settings.connection(),
                    kafka_client=connect,
                    acks="all",
                    enable_idempotence=False,
                    max_in_flight_requests_per_connection=1,
                    delivery_timeout_ms=timeout_ms,
                    request_timeout_ms=max(100, timeout_ms - 2 * LINGER_MS),
                    max_block_ms=timeout_ms,
                    bootstrap_timeout_ms=timeout_ms,
                    max_request_size=ANY_SIZE_BYTES,
                    compression_type="gzip",
                    value_serializer=_Nullable(),
                    linger_ms=LINGER_MS,
                    batch_size=BATCH_BYTES,
                    allow_auto_create_topics=False,
                    metrics_enabled=False,
                    reconnect_backoff_max_ms=1000,
                )
        except (ValueError, OSError) as error:
            # For example an invalid address, or a certificate that cannot be read.
            raise KafkaUnavailable(f"the [kafka] settings do not work: {error}") from error
        return self._producer

    def _away(self, error: KafkaError) -> NotAcknowledged:
        where = f"Kafka at {self._settings.bootstrap_servers}"
        why = self._refusal(error) or self._lost()
        if why is not None:
            return NotAcknowledged(f"{where}: {why.said}").because(why)
        return NotAcknowledged(f"{where} did not acknowledge: {in_words(error)}")

    def _refusal(self, error: KafkaError) -> SecurityFault | None:
        return fault_of(error, mechanism=self._settings.sasl_mechanism, operation="Write")

    def _lost(self) -> SecurityFault | None:
        if self._producer is None:
            return None
        net = self._producer._metadata._manager._net
        return fault_lost(net, since_s=monotonic_s() - 2 * self._timeout_s)


_NULL = object()


class _Nullable(Serializer):  # type: ignore[misc]
    """Writes bytes as they are, and null where `_NULL` stands for it."""

    def serialize(self, topic: str, headers: object, data: object) -> object:
        """Return the bytes that are written as the value."""
        return None if data is _NULL else data
