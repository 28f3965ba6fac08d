"""Writes a worker's own records, in batches: each is acknowledged, or the reason is named.

A record that is written twice (a wake-up, a dead letter) does no harm here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.engines import engine_of
from feedback.kafka.outgoing import Outgoing, RecordRefused
from feedback.kafka.producer import BatchProducer, SentRecord
from feedback.settings.settings import KafkaSection


class KafkaWriter:
    """Writes records over a connection that is made at the first. Belongs to one thread.

    Args:
        settings: brokers and security.
        timeout_s: how long to wait for the connection, for a topic, and for the acknowledgements.
    """

    def __init__(self, settings: KafkaSection, *, timeout_s: float = 5.0) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._producer: BatchProducer | None = None

    def prepare(self, topics: Iterable[str]) -> None:
        """Connect and load these topics' metadata, so that the first record need not wait.

        Raises:
            KafkaUnavailable: Kafka or one of them is away.
        """
        producer = self._connected()
        for topic in topics:
            producer.partitions(topic)

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]:
        """Return for each record None when Kafka has it, else the error.

        After `RecordRefused` Kafka does not have it; after any other error it may.
        """
        away: dict[str, KafkaUnavailable] = {}
        handed = [self._hand_over(one, away) for one in records]
        # Counted from here: the handing over may have waited for a topic that is away.
        deadline_s = monotonic_s() + self._timeout_s
        if self._producer is not None:
            self._producer.flush(self._timeout_s)
        return [
            one
            if isinstance(one, KafkaUnavailable)
            else one.result(max(0.001, deadline_s - monotonic_s()))
            for one in handed
        ]

    def close(self, timeout_s: float = 1.0) -> None:
        """Close the connection; a record without an acknowledgement may or may not be written."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(timeout_s)

    def _hand_over(
        self, one: Outgoing, away: dict[str, KafkaUnavailable]
    ) -> SentRecord | KafkaUnavailable:
        """Return a record under way, or the error of its topic, which is asked for once."""
        if one.topic in away:
            return away[one.topic]
        try:
            producer, partition = self._connected(), one.partition
            if partition is not None and partition >= producer.partitions(one.topic):
                partition = None
            return producer.send(one, partition)
        except RecordRefused as error:
            return error
        except KafkaUnavailable as error:
            away[one.topic] = error
            return error

    def _connected(self) -> BatchProducer:
        if self._producer is None:
            self._producer = engine_of(self._settings).producer(self._settings, self._timeout_s)
        return self._producer
