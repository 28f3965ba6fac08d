"""Writing dead letters: a page of failures becomes records, and what became of each is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from consumer.dead_letters.evidence import Evidence
from consumer.dead_letters.letter import (
    ROOM_BYTES,
    TRIMS,
    Trim,
    dead_letter_topic,
    headers_of,
)
from consumer.entries import Run
from consumer.journal.dead_letters import Dead
from consumer.journal.records import Row
from consumer.pool.outcome import Raised
from feedback.envelope import Record
from feedback.errors import KafkaUnavailable, NotAvailable
from feedback.kafka_writer import Outgoing, RecordRefused, RecordTooLarge
from feedback.logs import EventLog

log = EventLog("onceward.dead_letters")

# What is on its way to Kafka at the same time.
BATCH_BYTES = 8 * 2**20


class Topics(Protocol):
    """Sees to it that a topic exists."""

    def ensure(self, name: str, *, like: str, room_bytes: int = 0) -> None: ...
    def forget(self, name: str) -> None: ...


class Writer(Protocol):
    """Writes records; None for each that Kafka has acknowledged."""

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]: ...


class Source(Protocol):
    """Finds the record of a row."""

    def of(self, row: Row) -> Record | None: ...


class Letter(NamedTuple):
    """A failure with everything that its letter is made of."""

    dead: Dead
    record: Record
    raised: Raised | None

    @property
    def run(self) -> Run:
        """The run that failed."""
        return self.dead.row.request_id, self.dead.row.generation


@dataclass(slots=True)
class Posted:
    """What became of some failures.

    Attributes:
        written: Kafka has their letters.
        gone: nothing is left to make a letter of.
        closed: source topics whose letters cannot be written now, and why.
        refused: those whose topic does not take a single letter, and why.
    """

    written: list[Row] = field(default_factory=list)
    gone: list[Row] = field(default_factory=list)
    closed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


class Posting:
    """Writes letters. Belongs to one thread.

    Args:
        group: whose failures they are.
        evidence: what this worker remembers.
        payloads: finds the rest.
        topics: makes dead letter topics.
        writer: writes the records.
        stopping: whether to leave the rest to the next worker.
    """

    def __init__(
        self,
        *,
        group: str,
        evidence: Evidence,
        payloads: Source,
        topics: Topics,
        writer: Writer,
        stopping: Callable[[], bool],
    ) -> None:
        self._group = group
        self._evidence = evidence
        self._payloads = payloads
        self._topics = topics
        self._writer = writer
        self._stopping = stopping

    def post(self, page: Sequence[Dead]) -> Iterator[Posted]:
        """Write a page; yield what became of it, some at a time, so that it is noted early."""
        posted = Posted()
        batch: list[Letter] = []
        size_bytes = 0
        for dead in page:
            if self._stopping():
                break
            letter = self._letter(dead, posted)
            if letter is None:
                continue
            batch.append(letter)
            size_bytes += len(letter.record.key or b"") + len(letter.record.value or b"")
            if size_bytes >= BATCH_BYTES:
                self._write(batch, posted)
                yield posted
                posted, batch, size_bytes = Posted(closed=posted.closed), [], 0
        self._write(batch, posted)
        yield posted

    def _letter(self, dead: Dead, posted: Posted) -> Letter | None:
        row = dead.row
        if row.topic in posted.closed:
            return None
        name = dead_letter_topic(row.topic, self._group)
        known = self._evidence.of((row.request_id, row.generation))
        try:
            self._topics.ensure(name, like=row.topic, room_bytes=ROOM_BYTES)
            record = self._payloads.of(row) if known is None else known.record
        except NotAvailable as error:
            posted.closed[row.topic] = str(error)
            return None
        if record is None:
            posted.gone.append(row)
            log.error("dead_letter.payload_gone", request_id=row.request_id, topic=row.topic)
            return None
        return Letter(dead, record, None if known is None else known.raised)

    def _write(self, letters: Sequence[Letter], posted: Posted) -> None:
        """Write letters, those that are too large again with shorter texts."""
        for trim in TRIMS:
            if not letters:
                return
            letters = self._write_once(letters, trim, posted)
        for one in letters:
            why = f"{dead_letter_topic(one.dead.row.topic, self._group)} takes no record so large"
            posted.refused[one.dead.row.topic] = f"{why}: raise its max.message.bytes"
            self._log_refused(one, why)

    def _write_once(self, letters: Sequence[Letter], trim: Trim, posted: Posted) -> list[Letter]:
        """Return those that are too large."""
        too_large = []
        records = [self._outgoing(one, trim) for one in letters]
        for one, error in zip(letters, self._writer.write(records), strict=True):
            row = one.dead.row
            if error is None:
                posted.written.append(row)
            elif isinstance(error, RecordTooLarge):
                too_large.append(one)
            elif isinstance(error, RecordRefused):
                posted.refused[row.topic] = str(error)
                self._log_refused(one, str(error))
            else:
                posted.closed[row.topic] = str(error)
                self._topics.forget(dead_letter_topic(row.topic, self._group))
        return too_large

    def _outgoing(self, one: Letter, trim: Trim) -> Outgoing:
        row, record = one.dead.row, one.record
        headers = headers_of(one.dead, record, group=self._group, raised=one.raised, trim=trim)
        topic = dead_letter_topic(row.topic, self._group)
        return Outgoing(topic, row.partition, record.key, record.value, tuple(headers))

    def _log_refused(self, one: Letter, reason: str) -> None:
        log.debug("dead_letter.refused", request_id=one.run[0], reason=reason)
