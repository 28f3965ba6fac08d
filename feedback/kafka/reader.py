"""Reads one record again from Kafka by its coordinates, or finds that it is gone.

A resend needs it where no payload was stored, and so does a sweep that runs a request again. Gone
means that it can never be read again: below the log's start (retention), no longer among the
records (compaction, an aborted transaction), beyond its end or without its topic (deleted, created
anew). In a topic that was created anew, another record may stand at those coordinates. Only its
hash tells, so the caller compares that.

Facts it depends on (kafka-python 3.0.12): a consumer belongs to one thread at a time. Without a
reset policy `poll` raises for an offset out of range. A missing topic is polled in silence until
the time is over, so the broker is asked about it after the first silence.
"""

from __future__ import annotations

import math
import threading
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import (
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python.admin import administrator
from feedback.kafka.kafka_python.failures import fault_lost
from feedback.kafka.kafka_python.faults import fault_of, in_words, unavailable
from feedback.kafka.kafka_python.records import record_of
from feedback.kafka.kafka_python.sockets import closed_at_a_fault
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection

# An existing record comes within milliseconds: after so long the broker is asked about the topic.
SILENCE_S = 0.5
# One record is wanted; a broker sends a whole batch in any case, however large it is.
FETCH_BYTES = 65_536


class ReadForbidden(KafkaUnavailable):
    """This user may not read the topic: a person has to allow it."""


class RecordReader:
    """Reads single records, over a connection that is made at the first. Safe to share.

    Args:
        settings: brokers and security; no group is joined, nothing is committed.
    """

    def __init__(self, settings: KafkaSection) -> None:
        self._settings = settings
        self._consumer: Any = None
        self._lock = threading.Lock()

    def __enter__(self) -> RecordReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, topic: str, partition: int, offset: int, *, timeout_s: float) -> Record | None:
        """Return the record at these coordinates; None when there is none any more.

        Args:
            timeout_s: seconds to wait for Kafka, the connection included.

        Raises:
            ReadForbidden: this user may not read the topic.
            KafkaUnavailable: Kafka did not answer in time or refused; nothing is known.
        """
        deadline_s = monotonic_s() + timeout_s
        where = TopicPartition(topic, partition)
        if not self._lock.acquire(timeout=timeout_s):
            raise KafkaUnavailable(self._away("others are reading"))
        try:
            return self._read(where, offset, deadline_s)
        except KafkaError as error:
            self._disconnect()
            is_forbidden = isinstance(error, TopicAuthorizationFailedError)
            kind = ReadForbidden if is_forbidden else KafkaUnavailable
            if fault_of(error) is None:
                raise KafkaUnavailable(self._away(in_words(error))) from error
            raise unavailable(kind, error, self._settings) from error
        except (ValueError, OSError) as error:
            # For example an invalid address, or a certificate that cannot be read.
            self._disconnect()
            raise KafkaUnavailable(f"the [kafka] settings do not work: {error}") from error
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection; a later read makes a new one."""
        with self._lock:
            self._disconnect()

    def _read(self, where: TopicPartition, offset: int, deadline_s: float) -> Record | None:
        consumer = self._connected(deadline_s)
        if consumer.assignment() != {where}:
            consumer.assign([where])
        consumer.seek(where, offset)
        began_s = monotonic_s()
        try:
            for longest_s in (SILENCE_S, math.inf):
                wait_s = min(longest_s, max(0.0, deadline_s - monotonic_s()))
                polled = consumer.poll(int(wait_s * 1000) + 1, max_records=1)
                for found in polled.get(where, ()):
                    return record_of(found) if found.offset == offset else None
                if longest_s == SILENCE_S and not self._exists(where, deadline_s):
                    return None
        except OffsetOutOfRangeError:
            return None
        end = consumer.highwater(where)
        if end is None:
            why = fault_lost(consumer._net, since_s=began_s)
            said = "it does not answer" if why is None else why.said
            raise KafkaUnavailable(self._away(said)).because(why)
        # It answered all that time and has no record there. The log ends before the offset (a new
        # leader would know its true end sooner), or compaction or an aborted transaction left no
        # record.
        if end > offset and (consumer.position(where, timeout_ms=1) or 0) <= offset:
            raise KafkaUnavailable(self._away("it does not give the record"))
        return None

    def _connected(self, deadline_s: float) -> Any:
        if self._consumer is not None:
            return self._consumer
        with closed_at_a_fault() as connect:
            self._consumer = KafkaConsumer(
                **self._settings.reading(),
                kafka_client=connect,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                allow_auto_create_topics=False,
                max_partition_fetch_bytes=FETCH_BYTES,
                fetch_max_wait_ms=100,
                bootstrap_timeout_ms=_left_ms(deadline_s),
                reconnect_backoff_max_ms=1000,
                metrics_enabled=False,
            )
        return self._consumer

    def _exists(self, where: TopicPartition, deadline_s: float) -> bool:
        """Whether the broker knows the partition.

        A client of its own asks, since the consumer has no call for it that ends in time.
        """
        with administrator(self._settings, timeout_s=deadline_s - monotonic_s()) as admin:
            (topic,) = admin.describe_topics([where.topic])
        if topic["error_code"] == UnknownTopicOrPartitionError.errno:
            return False
        return where.partition in {one["partition_index"] for one in topic["partitions"]}

    def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=1000)

    def _away(self, why: str) -> str:
        return f"Kafka at {self._settings.bootstrap_servers} is away: {why}"


def read_record(
    settings: KafkaSection, topic: str, partition: int, offset: int, timeout_s: float
) -> Record | None:
    """Return one record over a connection of its own; see `RecordReader.read`."""
    with RecordReader(settings) as reader:
        return reader.read(topic, partition, offset, timeout_s=timeout_s)


def _left_ms(deadline_s: float) -> int:
    return max(1, int((deadline_s - monotonic_s()) * 1000))
