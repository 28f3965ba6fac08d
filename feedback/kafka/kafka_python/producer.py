"""A producer of a worker's own records, on kafka-python.

It is not the idempotent one, which in kafka-python 3.0.12 never sends again after a record has
timed out. Batches are compressed, so that a record that came compressed fits into a topic of the
same limit again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

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

import feedback.kafka.kafka_python.records
import feedback.kafka.kafka_python.retries  # noqa: F401 - these mend kafka-python for this process
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable, SecurityFault
from feedback.kafka.kafka_python.failures import fault_lost
from feedback.kafka.kafka_python.faults import fault_of, in_words
from feedback.kafka.kafka_python.sockets import closed_at_a_fault
from feedback.kafka.outgoing import NotAcknowledged, Outgoing, RecordRefused, RecordTooLarge
from feedback.settings.settings import KafkaSection

# The broker's limit is the one that counts, and it refuses that one record alone.
ANY_SIZE_BYTES = 2**30
# Records that are written together go in few batches; the last ones do not wait for it.
LINGER_MS = 50
BATCH_BYTES = 65_536

_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_REFUSED = (InvalidRecordError, PolicyViolationError)


class KafkaPythonProducer:
    """See `feedback.kafka.producer.BatchProducer`.

    Args:
        settings: brokers and security.
        timeout_s: how long to wait for the connection, for a topic, and for an acknowledgement.
    """

    def __init__(self, settings: KafkaSection, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._producer: Any = None
        timeout_ms = int(timeout_s * 1000)
        try:
            with self._faults(), closed_at_a_fault() as connect:
                self._producer = KafkaProducer(
                    **settings.connection(),
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

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        try:
            with self._faults():
                return len(self._producer.partitions_for(topic))
        except ValueError as error:  # an illegal name
            raise RecordRefused(f"ValueError {error}") from error

    def send(self, record: Outgoing, partition: int | None) -> _Sent:
        """Hand a record over."""
        # A tombstone without a key is a record like any other; kafka-python takes it only in this
        # form.
        value = _NULL if record.key is None and record.value is None else record.value
        try:
            with self._faults():
                future = self._producer.send(
                    record.topic,
                    key=record.key,
                    value=value,
                    headers=list(record.headers),
                    partition=partition,
                )
        except (ValueError, TypeError) as error:
            raise RecordRefused(f"{type(error).__name__} {error}") from error
        return _Sent(future, self)

    def flush(self, timeout_s: float) -> None:
        """Return when the result of each is known, or the time is over."""
        # The result of each is reported by itself; a batch that had to be split is not known here.
        with contextlib.suppress(KafkaError):
            self._producer.flush(timeout=timeout_s)

    def close(self, timeout_s: float) -> None:
        """Close the connection."""
        # Its closing flushes first, and raises if that takes too long.
        with contextlib.suppress(KafkaTimeoutError):
            self._producer.close(timeout=timeout_s)

    def away(self, error: KafkaError) -> NotAcknowledged:
        """Return our error for a record that nobody acknowledged."""
        where = f"Kafka at {self._settings.bootstrap_servers}"
        why = self._refusal(error) or self._lost()
        if why is not None:
            return NotAcknowledged(f"{where}: {why.said}").because(why)
        return NotAcknowledged(f"{where} did not acknowledge: {in_words(error)}")

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except KafkaError as error:
            raise self.away(error) from error

    def _refusal(self, error: KafkaError) -> SecurityFault | None:
        return fault_of(error, mechanism=self._settings.sasl_mechanism, operation="Write")

    def _lost(self) -> SecurityFault | None:
        if self._producer is None:
            return None
        net = self._producer._metadata._manager._net
        return fault_lost(net, since_s=monotonic_s() - 2 * self._timeout_s)


class _Sent:
    """A record under way.

    Args:
        future: kafka-python's.
    """

    def __init__(self, future: Any, producer: KafkaPythonProducer) -> None:
        self._future = future
        self._producer = producer

    def result(self, timeout_s: float) -> KafkaUnavailable | None:
        """Return None when Kafka has it, else the error."""
        try:
            self._future.get(timeout=timeout_s)
        except _TOO_LARGE as error:
            return RecordTooLarge(in_words(error))
        except _REFUSED as error:
            return RecordRefused(f"Kafka refused the record: {in_words(error)}")
        except KafkaError as error:
            return self._producer.away(error)
        return None


_NULL = object()


class _Nullable(Serializer):  # type: ignore[misc]
    """Writes bytes as they are, and null where `_NULL` stands for it."""

    def serialize(self, topic: str, headers: object, data: object) -> object:
        """Return the bytes that are written as the value."""
        return None if data is _NULL else data
