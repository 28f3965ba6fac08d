"""A producer of a worker's own records, on librdkafka.

Whether a record that ended with an error is in Kafka is known to librdkafka
(`rd_kafka_message_status`), and confluent-kafka 2.16.1 does not say it. So only three errors mean
that Kafka does not have it: the broker found that very record too large, invalid, or against its
policy. All others are `NotAcknowledged`; a purged or expired record may have been sent before.

librdkafka would try a record again by itself, and then report the last try alone: of one that was
stored at the first, with an acknowledgement that was lost, that the topic refuses it by now. So it
is told to try once, and what may be tried again is sent again here, within the flush. Where a
leader says that it is none, or that there is no such partition, it tries again all the same, and
a leader that resigns may have stored the record before. It waits before such a try: a refusal that
is heard as late as that may be of a second one, and says nothing of the first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.confluent.connection import connection
from feedback.kafka.confluent.faults import ABSENT, fault_of, words_of
from feedback.kafka.confluent.producer_limits import (
    ANY_SIZE_BYTES,
    ANY_SIZE_KIB,
    BATCH_BYTES,
    OWN_PAUSE_MS,
    is_first_try,
)
from feedback.kafka.confluent.standing import ClientStanding, await_broker
from feedback.kafka.errors import KafkaFault
from feedback.kafka.outgoing import NotAcknowledged, Outgoing, RecordRefused, RecordTooLarge
from feedback.records.envelope import NullHeader
from feedback.settings.sections import METADATA_MAX_AGE_MS
from feedback.settings.settings import KafkaSection

# Records that are written together go in few batches; the last ones do not wait for it.
_LINGER_MS = 50
_BY_KEY = -1
_REFUSED = {KafkaError.INVALID_RECORD, KafkaError.POLICY_VIOLATION}
# The same record may be taken in a moment. After LEADER_NOT_AVAILABLE, NOT_LEADER_FOR_PARTITION and
# UNKNOWN_TOPIC_OR_PART librdkafka itself tries again: they are heard only where it gave up.
_AGAIN = {
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.KAFKA_STORAGE_ERROR,
}
# Between two tries, where the broker answers at once.
_PAUSE_S = 0.1


class ConfluentProducer:
    """See `feedback.kafka.producer.BatchProducer`.

    Args:
        settings: brokers and security.
        timeout_s: how long to wait for the connection, for a topic, and for an acknowledgement.
    """

    def __init__(self, settings: KafkaSection, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._standing = ClientStanding(settings)
        # Records whose batch was too large: each is to be sent alone, within the flush.
        self._too_large: list[_SentMessage] = []
        # Records that Kafka may have by now, or not.
        self._unsure: list[_SentMessage] = []
        self._is_flushing = False
        self._counts: dict[str, tuple[int, float]] = {}
        with self._faults():
            self._producer = Producer(
                {
                    **connection(settings),
                    "error_cb": self._standing.hear_error,
                    "acks": "all",
                    "max.in.flight.requests.per.connection": 1,
                    "retries": 0,
                    "retry.backoff.ms": OWN_PAUSE_MS,
                    "retry.backoff.max.ms": OWN_PAUSE_MS,
                    "message.timeout.ms": max(1, int(timeout_s * 1000)),
                    "message.max.bytes": ANY_SIZE_BYTES,
                    "queue.buffering.max.messages": 0,
                    "queue.buffering.max.kbytes": ANY_SIZE_KIB,
                    "compression.type": "gzip",
                    "linger.ms": _LINGER_MS,
                    "batch.size": BATCH_BYTES,
                    # As other clients choose it, by the same hash.
                    "partitioner": "murmur2_random",
                    "allow.auto.create.topics": False,
                }
            )
            await_broker(self._producer, self._standing, settings, timeout_s)

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        count, until_s = self._counts.get(topic, (0, 0.0))
        if monotonic_s() < until_s:
            return count
        with self._faults(topic):
            found = self._producer.list_topics(topic, timeout=self._timeout_s).topics[topic]
            if found.error is not None:
                raise KafkaException(found.error)
        self._counts[topic] = len(found.partitions), monotonic_s() + METADATA_MAX_AGE_MS / 1000
        return len(found.partitions)

    def send(self, record: Outgoing, partition: int | None) -> _SentMessage:
        """Hand a record over."""
        # librdkafka would wait for a topic that is not there.
        self.partitions(record.topic)
        sent = _SentMessage(record, partition, self)
        self.produce(sent)
        return sent

    def produce(self, sent: _SentMessage) -> None:
        """Hand a record over, for the first time or again."""
        record = sent.record
        if any("\0" in name for name, _ in record.headers):
            raise RecordRefused("a header's name has a null character: librdkafka would cut it")
        sent.began_s = monotonic_s()
        try:
            with self._faults(record.topic):
                self._producer.produce(
                    record.topic,
                    key=record.key,
                    value=record.value,
                    headers=[
                        (name, None if isinstance(value, NullHeader) else value)
                        for name, value in record.headers
                    ],
                    on_delivery=sent.hear,
                    partition=_BY_KEY if sent.partition is None else sent.partition,
                )
        except (ValueError, TypeError) as error:
            raise RecordRefused(f"{type(error).__name__} {error}") from error
        except BufferError as error:
            raise NotAcknowledged(f"too much waits to be written: {error}") from error

    def takes_alone(self, sent: _SentMessage) -> bool:
        """Say whether a record whose batch was too large is sent alone, within this flush."""
        if self._is_flushing:
            self._too_large.append(sent)
        return self._is_flushing

    def take_unsure(self, sent: _SentMessage) -> None:
        """Send a record again, if that is within this flush."""
        if self._is_flushing:
            self._unsure.append(sent)

    def flush(self, timeout_s: float) -> None:
        """Return when the result of each is known, or the time is over."""
        until_s = monotonic_s() + timeout_s
        self._is_flushing = True
        again: list[_SentMessage] = []
        try:
            self._producer.flush(timeout_s)
            while (left_s := until_s - monotonic_s()) > 0:
                if self._unsure:
                    self._producer.poll(min(_PAUSE_S, left_s))
                    again += self._unsure
                    self._send_unsure()
                elif self._too_large:
                    # A batch is refused whole. Alone the others go through.
                    self._too_large.pop(0).again_alone()
                else:
                    break
                self._producer.flush(max(0.0, until_s - monotonic_s()))
        finally:
            self._is_flushing = False
            # Nobody hears of them any more: a later flush would send what its caller counts as
            # refused.
            for left in self._too_large:
                left.give_up()
            self._too_large.clear()
            self._unsure.clear()
            if any(not one.is_known for one in again):
                # Each try has the whole time of a record, and this one's is over.
                self._producer.purge(in_flight=False)

    def _send_unsure(self) -> None:
        unsure, self._unsure = self._unsure, []
        for one in unsure:
            one.again()

    def await_one(self, timeout_s: float) -> None:
        """Return when the result of one more is known, or the time is over."""
        self._producer.poll(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Close the connection."""
        self._producer.flush(timeout_s)
        # What is left would be waited for.
        self._producer.purge()
        self._producer.flush(0)

    def error_of(self, error: Any, topic: str = "") -> KafkaUnavailable:
        """Return our error for one of librdkafka about a record."""
        said = words_of(error)
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return RecordTooLarge(said)
        if error.code() in _REFUSED or error.code() == KafkaError.TOPIC_EXCEPTION:
            return RecordRefused(f"Kafka refused the record: {said}")
        return self.away(error, topic)

    def away(self, error: Any, topic: str) -> NotAcknowledged:
        """Return our error for a record that nobody acknowledged."""
        where = f"Kafka at {self._settings.bootstrap_servers}"
        found = fault_of(error, self._settings, operation="Write", topic=topic)
        if found is None and error.code() not in ABSENT:
            found = self._standing.why_away(since_s=monotonic_s() - 2 * self._timeout_s).fault
        if found is not None:
            return NotAcknowledged(f"{where}: {found.said}").because(found)
        return NotAcknowledged(f"{where} did not acknowledge: {words_of(error)}")

    @contextlib.contextmanager
    def _faults(self, topic: str = "") -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self.error_of(error.args[0], topic) from error
        except KafkaFault as error:
            raise NotAcknowledged(str(error)).because(error.fault) from error


class _SentMessage:
    """A record under way; alone in its batch once that was too large.

    Args:
        record: as it was given.
        producer: sends it.

    Attributes:
        is_known: whether its result is.
        began_s: the monotonic time at which it was handed over last.
    """

    def __init__(
        self, record: Outgoing, partition: int | None, producer: ConfluentProducer
    ) -> None:
        self.record = record
        self.partition = partition
        self.is_known = False
        self.began_s = 0.0
        self._producer = producer
        self._is_alone = False
        self._may_be_there = False
        self._error: KafkaUnavailable | None = None

    def hear(self, error: Any, _: object) -> None:
        """Hear how its sending ended."""
        self.is_known, self._error = True, None
        if error is None:
            return
        if not is_first_try(monotonic_s() - self.began_s):
            self._may_be_there = True
        self._error = self._producer.error_of(error, self.record.topic)
        if isinstance(self._error, RecordTooLarge) and not self._is_alone:
            if not self._producer.takes_alone(self):
                self.give_up()
        elif not isinstance(self._error, RecordRefused):
            self._may_be_there = True
            if error.code() in _AGAIN:
                self._producer.take_unsure(self)
        elif self._may_be_there:
            self._error = NotAcknowledged(f"{self._error}; an earlier try may have been stored")

    def give_up(self) -> None:
        """End as not sent: its batch was refused, and no time is left to send it alone."""
        self._error = NotAcknowledged("its batch was too large, and no time was left for it alone")
        self.is_known = True

    def again_alone(self) -> None:
        """Send it alone."""
        self._is_alone = True
        self.again()

    def again(self) -> None:
        """Send it once more."""
        self.is_known = False
        try:
            self._producer.produce(self)
        except KafkaUnavailable as error:
            self._error, self.is_known = error, True

    def result(self, timeout_s: float) -> KafkaUnavailable | None:
        """Return None when Kafka has it, else the error."""
        until_s = monotonic_s() + timeout_s
        while not self.is_known and (left_s := until_s - monotonic_s()) > 0:
            self._producer.await_one(left_s)
        if not self.is_known:
            return NotAcknowledged("Kafka did not acknowledge in time")
        return self._error
