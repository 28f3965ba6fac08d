"""Writes a page of waiting rows: they become records, and the result of each is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from consumer.journal.records import Row
from consumer.journal.waiting import OwedRow
from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka.outgoing import Outgoing, RecordRefused, RecordTooLarge
from feedback.logs import EventLog

DEAD_LETTERS, OUTCOMES = "dead_letters", "outcomes"
WRITTEN, DROPPED, PAYLOAD_GONE = "written", "dropped", "payload_gone"


class OutgoingListener:
    """Hears nothing. Called in the thread that writes; every method returns at once.

    The first argument is `DEAD_LETTERS` or `OUTCOMES`.
    """

    def done(self, kind: str, what: str, rows: Sequence[Row]) -> None:
        """Hear of rows that wait for no record any more.

        Args:
            what: `WRITTEN`, `DROPPED` (by the settings), or `PAYLOAD_GONE`; the end of a record.
        """

    def waiting(self, kind: str, topic: str, count: int, since_s: float, *, is_ours: bool) -> None:
        """Hear how many rows of a topic wait now.

        Args:
            since_s: the monotonic time of the oldest.
            is_ours: whether this worker writes for the topic.
        """

    def hindered(self, kind: str, topic: str, reason: str) -> None:
        """Hear that records of a topic cannot be written."""


# The records on their way to Kafka at the same time.
BATCH_BYTES = 8 * 2**20


class Draft(Protocol):
    """A record that is to be written about a row."""

    @property
    def size_bytes(self) -> int: ...

    def versions(self) -> Iterator[Outgoing]:
        """Yield the whole record, then smaller ones to try where that is too large."""


class OutgoingTarget(NamedTuple):
    """Where records about a topic go.

    Args:
        room_bytes: how much larger than a record of that topic one of these may be.
    """

    name: str
    room_bytes: int


class EnsuredTopics(Protocol):
    """Sees to it that a topic exists."""

    def ensure(self, name: str, *, like: str, room_bytes: int = 0) -> None: ...
    def forget(self, name: str) -> None: ...


class RecordWriter(Protocol):
    """Writes records; None for each that Kafka has acknowledged."""

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class PageResults:
    """The results of some rows.

    Attributes:
        written: Kafka has their records.
        gone: nothing is left to make a record of.
        closed: topics whose records cannot be written now, and why.
        refused: those of which a single record was not taken, and why.
    """

    written: list[Row] = field(default_factory=list)
    gone: list[Row] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class OwedRecordWriter:
    """Writes records. Belongs to one thread.

    Args:
        target: where the records about a topic go.
        draft: makes the record; None when nothing is left to make one of. It may raise
            NotAvailable: it cannot be made now.
    """

    def __init__(
        self,
        *,
        kind: str,
        target: Callable[[str], OutgoingTarget],
        draft: Callable[[OwedRow], Draft | None],
        topics: EnsuredTopics,
        writer: RecordWriter,
        stopping: Callable[[], bool],
    ) -> None:
        self._kind = kind
        self._log = EventLog(f"onceward.{kind}")
        self._target = target
        self._draft = draft
        self._topics = topics
        self._writer = writer
        self._stopping = stopping

    def post(self, page: Sequence[OwedRow]) -> Iterator[PageResults]:
        """Write a page; yield the results, some at a time, so that they are noted early."""
        posted = PageResults()
        batch: list[tuple[Row, Draft]] = []
        size_bytes = 0
        for item in page:
            if self._stopping():
                break
            draft = self._drafted(item, posted)
            if draft is None:
                continue
            batch.append((item.row, draft))
            size_bytes += draft.size_bytes
            if size_bytes >= BATCH_BYTES:
                self._write(batch, posted)
                yield posted
                posted, batch, size_bytes = PageResults(closed=posted.closed), [], 0
        self._write(batch, posted)
        yield posted

    def close(self) -> None:
        """Close the connection to Kafka; a later page opens it again."""
        self._writer.close()

    def _drafted(self, item: OwedRow, posted: PageResults) -> Draft | None:
        topic = item.row.topic
        if topic in posted.closed:
            return None
        target = self._target(topic)
        try:
            self._topics.ensure(target.name, like=topic, room_bytes=target.room_bytes)
            draft = self._draft(item)
        except NotAvailable as error:
            posted.closed[topic] = str(error)
            return None
        if draft is None:
            posted.gone.append(item.row)
            self._log.error(
                f"{self._kind}.payload_gone", request_id=item.row.request_id, topic=topic
            )
        return draft

    def _write(self, batch: Sequence[tuple[Row, Draft]], posted: PageResults) -> None:
        """Write records, those that are too large again in shorter versions."""
        left = [(row, draft.versions()) for row, draft in batch]
        while left:
            records: list[Outgoing] = []
            tried: list[tuple[Row, Iterator[Outgoing]]] = []
            for row, versions in left:
                record = next(versions, None)
                if record is None:
                    self._give_up(row, posted)
                else:
                    records.append(record)
                    tried.append((row, versions))
            left = self._write_once(records, tried, posted)

    def _write_once(
        self,
        records: Sequence[Outgoing],
        tried: Sequence[tuple[Row, Iterator[Outgoing]]],
        posted: PageResults,
    ) -> list[tuple[Row, Iterator[Outgoing]]]:
        """Return those that are too large."""
        if not records:
            return []
        too_large = []
        for one, error in zip(tried, self._writer.write(records), strict=True):
            row = one[0]
            if error is None:
                posted.written.append(row)
            elif isinstance(error, RecordTooLarge):
                too_large.append(one)
            elif isinstance(error, RecordRefused):
                self._refuse(row, str(error), posted)
            else:
                posted.closed[row.topic] = str(error)
                self._topics.forget(self._target(row.topic).name)
        return too_large

    def _give_up(self, row: Row, posted: PageResults) -> None:
        why = f"{self._target(row.topic).name} takes no record so large"
        self._refuse(row, f"{why}: raise its max.message.bytes", posted)

    def _refuse(self, row: Row, reason: str, posted: PageResults) -> None:
        posted.refused[row.topic] = reason
        self._log.debug(f"{self._kind}.refused", request_id=row.request_id, reason=reason)
