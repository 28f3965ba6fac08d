"""The one place of this room that knows kafka-python: reading records and committing offsets.

Facts it stands on (kafka-python 3.0): a poll of 5 ms or less never finishes joining a group; a
consumer belongs to one thread; a poll with everything paused sleeps its time away, at most 0.1 s;
paused partitions keep what was fetched; a header's name that is not UTF-8 is a corrupt record to
it, at which a partition would stop for ever (see `_TolerantBatch`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import IllegalStateError, KafkaError
from kafka.record import memory_records
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint

from feedback.envelope import Record
from feedback.errors import KafkaUnavailable
from feedback.settings import KafkaSection

Partition = tuple[str, int]

REQUEST_TIMEOUT_MS = 10_000
# Long enough to take part in a rebalance, see above.
SHORTEST_POLL_S = 0.02
# A rebalance on kafka-python's thread may take a partition away between two calls.
_NOT_OURS = (KeyError, AssertionError, IllegalStateError, ValueError)


class CommitFailed(KafkaUnavailable):
    """A commit was refused, or nobody knows whether it was applied: read what is committed."""


class KafkaSource:
    """Reads topics as a member of a group. Belongs to one thread.

    Args:
        settings: brokers, group and security.
        topics: what to subscribe to.
    """

    def __init__(self, settings: KafkaSection, topics: Sequence[str]) -> None:
        self._where = settings.bootstrap_servers
        self._is_paused = False
        try:
            self._consumer = KafkaConsumer(
                **settings.connection(),
                group_id=settings.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                allow_auto_create_topics=False,
                session_timeout_ms=int(settings.session_timeout_s * 1000),
                max_poll_interval_ms=int(settings.max_poll_interval_s * 1000),
                heartbeat_interval_ms=min(3000, int(settings.session_timeout_s * 1000 / 3)),
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                bootstrap_timeout_ms=REQUEST_TIMEOUT_MS,
                reconnect_backoff_max_ms=1000,
                metrics_enabled=False,
            )
            if topics:
                self._consumer.subscribe(topics, listener=_OnAssigned(self._stay_paused))
        except KafkaError as error:
            raise self._unavailable(error) from error

    def missing(self, topics: Sequence[str]) -> list[str]:
        """Return those topics that do not exist.

        Raises:
            KafkaUnavailable: no broker answered.
        """
        try:
            known = self._consumer.topics()
        except KafkaError as error:
            raise self._unavailable(error) from error
        return [topic for topic in topics if topic not in known]

    def broker_version(self) -> str:
        """Return the newest protocol the broker and the client both speak."""
        return ".".join(map(str, self._consumer.config["api_version"]))

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records, in offset order within each partition.

        Raises:
            KafkaUnavailable: the broker refused; polling again is right.
        """
        timeout_ms = int(max(timeout_s, SHORTEST_POLL_S) * 1000)
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms, max_records=max_records)
        except KafkaError as error:
            raise self._unavailable(error) from error
        return [_record(one) for records in polled.values() for one in records]

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition, and return when it is applied.

        Raises:
            CommitFailed: it was refused or its outcome is unknown.
        """
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            self._consumer.commit(wanted, timeout_ms=REQUEST_TIMEOUT_MS)
        except KafkaError as error:
            raise CommitFailed(f"{type(error).__name__} {error}".strip()) from error

    def committed(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition; 0 where nothing is.

        Raises:
            KafkaUnavailable: nobody answered.
        """
        found: dict[Partition, int] = {}
        try:
            for partition in partitions:
                offset = self._consumer.committed(
                    TopicPartition(*partition), timeout_ms=REQUEST_TIMEOUT_MS
                )
                found[partition] = offset or 0
        except KafkaError as error:
            raise self._unavailable(error) from error
        return found

    def rewind(self, offsets: Mapping[Partition, int]) -> None:
        """Read these partitions again from these offsets, where they are still ours."""
        for partition, offset in offsets.items():
            with suppress(*_NOT_OURS):
                self._consumer.seek(TopicPartition(*partition), offset)

    def pause(self) -> None:
        """Stop fetching, and stay a member of the group."""
        self._is_paused = True
        for partition in self._consumer.assignment():
            with suppress(*_NOT_OURS):
                self._consumer.pause(partition)

    def resume(self) -> None:
        """Fetch again."""
        self._is_paused = False
        for partition in self._consumer.paused():
            with suppress(*_NOT_OURS):
                self._consumer.resume(partition)

    def _stay_paused(self, assigned: Collection[TopicPartition]) -> None:
        if self._is_paused:
            self._consumer.pause(*assigned)

    def assigned(self) -> list[Partition]:
        """Return the partitions that are ours now."""
        return sorted((one.topic, one.partition) for one in self._consumer.assignment())

    def close(self) -> None:
        """Leave the group, so that the others take over at once.

        Raises:
            KafkaUnavailable: the group could not be told.
        """
        try:
            self._consumer.close(autocommit=False, timeout_ms=5000)
        except KafkaError as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: KafkaError) -> KafkaUnavailable:
        return KafkaUnavailable(f"Kafka at {self._where}: {type(error).__name__} {error}".strip())


class _OnAssigned(ConsumerRebalanceListener):  # type: ignore[misc]
    """Hears of new partitions on kafka-python's own thread, before anything of them is read."""

    def __init__(self, hear: Callable[[Collection[TopicPartition]], None]) -> None:
        self._hear = hear

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Do nothing: what was read is committed before it is dispatched, or dropped."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Hand the new partitions over; returns at once, a slow listener costs the membership."""
        self._hear(assigned)


def _record(one: Any) -> Record:
    return Record(
        topic=one.topic,
        partition=one.partition,
        offset=one.offset,
        timestamp_ms=-1 if one.timestamp is None else one.timestamp,
        key=one.key,
        value=one.value,
        headers=tuple((name, value or b"") for name, value in one.headers or ()),
    )


class _TolerantBatch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch whose headers may have names that are not UTF-8: Kafka itself takes any bytes."""

    _pos: int

    def _read_msg(self, *arguments: Any) -> Any:
        try:
            return super()._read_msg(*arguments)
        except UnicodeDecodeError:
            return self._read_with_any_names()

    def _read_with_any_names(self) -> Any:
        buffer = self._buffer
        length, start = decode_varint(buffer, self._pos)
        _, pos = decode_varint(buffer, start)
        timestamp_delta, pos = decode_varint(buffer, pos)
        offset_delta, pos = decode_varint(buffer, pos)
        key, pos = _nullable_bytes(buffer, pos)
        value, pos = _nullable_bytes(buffer, pos)
        count, pos = decode_varint(buffer, pos)
        headers = []
        for _ in range(count):
            name, pos = _nullable_bytes(buffer, pos)
            header, pos = _nullable_bytes(buffer, pos)
            headers.append(((name or b"").decode("utf-8", "replace"), header))
        self._pos = start + length
        is_append_time = self.timestamp_type == self.LOG_APPEND_TIME
        timestamp = self.max_timestamp if is_append_time else self.first_timestamp + timestamp_delta
        offset = self.base_offset + offset_delta
        kind = self.timestamp_type
        return DefaultRecord(length, offset, timestamp, kind, key, value, headers)


def _nullable_bytes(buffer: Any, pos: int) -> tuple[bytes | None, int]:
    size_bytes, pos = decode_varint(buffer, pos)
    if size_bytes < 0:
        return None, pos
    return bytes(buffer[pos : pos + size_bytes]), pos + size_bytes


memory_records.DefaultRecordBatch = _TolerantBatch
