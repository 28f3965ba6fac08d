"""Writes dead letters: a page of failures becomes records, and the result of each is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from consumer.features.dead_letters.letter import (
    ROOM_BYTES,
    TRIMS,
    dead_letter_topic,
    letter_headers,
)
from consumer.features.outgoing.recent_runs import RecentFailures
from consumer.features.outgoing.record_writer import (
    DEAD_LETTERS,
    EnsuredTopics,
    OutgoingTarget,
    OwedRecordWriter,
    RecordWriter,
)
from consumer.journal.records import Row
from consumer.journal.waiting import OwedRow
from consumer.loop.core import Core
from consumer.loop.stored_record import PayloadStore, kept_record
from consumer.pool.outcome import RaisedError
from feedback.errors import RedisUnavailable
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.reader import RecordReader
from feedback.kafka.writer import KafkaWriter
from feedback.records.envelope import Record, payload_sha256

READ_TIMEOUT_S = 5.0


class PlaceReader(Protocol):
    """Reads records again by their coordinates."""

    def read(
        self, topic: str, partition: int, offset: int, *, timeout_s: float
    ) -> Record | None: ...
    def close(self) -> None: ...


class RowPayloads:
    """Finds records of rows. Belongs to one thread.

    Args:
        redis_away: whether asking Redis would only cost time.
    """

    def __init__(
        self, *, reader: PlaceReader, store: PayloadStore, redis_away: Callable[[], bool]
    ) -> None:
        self._reader = reader
        self._store = store
        self._redis_away = redis_away

    def of(self, row: Row) -> Record | None:
        """Return the record that a row is about; None when it is gone for good.

        Raises:
            RedisUnavailable, KafkaUnavailable: it may be there, and cannot be read now.
        """
        place = row.topic, row.partition, row.offset
        record = self._reader.read(*place, timeout_s=READ_TIMEOUT_S)
        if record is not None and payload_sha256(record.key, record.value) == row.payload_sha256:
            return record
        return self._kept(row)

    def close(self) -> None:
        """Close the connection; a later call makes a new one."""
        self._reader.close()

    def _kept(self, row: Row) -> Record | None:
        if self._redis_away():
            raise RedisUnavailable("it is away, and may have a payload that Kafka has no longer")
        return kept_record(self._store, row, timestamp_ms=-1)


class RecordSource(Protocol):
    """Finds the record of a row."""

    def of(self, row: Row) -> Record | None: ...
    def close(self) -> None: ...


class OwedLetter(NamedTuple):
    """A failure with everything that its letter is made of."""

    dead: OwedRow
    record: Record
    raised: RaisedError | None
    group: str

    @property
    def size_bytes(self) -> int:
        """Its share of a batch in bytes, nearly."""
        return len(self.record.key or b"") + len(self.record.value or b"")

    def versions(self) -> Iterator[Outgoing]:
        """Yield the whole letter, then with shorter and shorter texts."""
        row, record = self.dead.row, self.record
        topic = dead_letter_topic(row.topic, self.group)
        for trim in TRIMS:
            headers = letter_headers(
                self.dead, record, group=self.group, raised=self.raised, trim=trim
            )
            yield Outgoing(topic, row.partition, record.key, record.value, tuple(headers))


class LetterWriter(OwedRecordWriter):
    """Writes letters. Belongs to one thread.

    Args:
        recent: this worker's memory of failures.
    """

    def __init__(
        self,
        *,
        group: str,
        recent: RecentFailures,
        payloads: RecordSource,
        topics: EnsuredTopics,
        writer: RecordWriter,
        stopping: Callable[[], bool],
    ) -> None:
        super().__init__(
            kind=DEAD_LETTERS,
            target=lambda topic: OutgoingTarget(dead_letter_topic(topic, group), ROOM_BYTES),
            draft=self._letter,
            topics=topics,
            writer=writer,
            stopping=stopping,
        )
        self._group = group
        self._recent = recent
        self._payloads = payloads

    def close(self) -> None:
        """Close the connections to Kafka; a later page opens them again."""
        super().close()
        self._payloads.close()

    def _letter(self, dead: OwedRow) -> OwedLetter | None:
        row = dead.row
        known = self._recent.of((row.request_id, row.generation))
        if known is not None:
            return OwedLetter(dead, known.record, known.raised, self._group)
        record = self._payloads.of(row)
        return None if record is None else OwedLetter(dead, record, None, self._group)


def letter_writer_of(
    core: Core, recent: RecentFailures, *, stopping: Callable[[], bool]
) -> LetterWriter:
    kafka = core.settings.kafka
    return LetterWriter(
        group=core.group,
        recent=recent,
        payloads=RowPayloads(
            reader=RecordReader(kafka), store=core.store, redis_away=core.redis_away
        ),
        topics=core.kafka_topics(),
        writer=KafkaWriter(kafka),
        stopping=stopping,
    )
