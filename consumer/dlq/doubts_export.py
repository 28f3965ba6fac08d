"""Open doubts as rows of an export: from the journal, with the value where it is still kept.

Most doubts have no letter. The value is the one that a client has stored for resends in Redis, else
that of the record in its topic. Where neither has it any more, or the server is away, `value` and
`headers` are null; so are all columns that only a letter has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

from consumer.dlq.doubts_list import as_letter
from consumer.dlq.exporting import letter_columns
from consumer.dlq.letter_state import LetterState
from consumer.dlq.listing import Advance
from consumer.dlq.options import LetterOptions
from consumer.journal.doubts import NOTHING_UNSWEPT, Doubts
from consumer.journal.records import Row
from consumer.loop.stored_record import kept_record
from feedback.errors import KafkaUnavailable, RedisUnavailable
from feedback.kafka.reader import RecordReader
from feedback.records.envelope import Record, payload_sha256
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings

READ_TIMEOUT_S = 5.0
_OF_A_LETTER = ("dialect", "dlq_topic", "dlq_partition", "dlq_offset", "dlq_timestamp")
_OF_A_PAYLOAD = ("value", "value_encoding", "headers", "timestamp")


class PayloadsLeft:
    """Finds payloads that are still kept. Belongs to one thread.

    A server that was away once is not asked again: each question would take its whole limit.

    Args:
        store: where clients keep payloads for resends.
        reader: of the topics of origin.

    Attributes:
        away: why payloads are not known, by server.
    """

    def __init__(self, store: StatusStore, reader: RecordReader) -> None:
        self._store = store
        self._reader = reader
        self.away: dict[str, str] = {}

    def of(self, row: Row) -> Record | None:
        """Return the record of a row; None where nobody has it, or says so."""
        return self._stored(row) or self._sent(row)

    def _stored(self, row: Row) -> Record | None:
        if "redis" in self.away:
            return None
        try:
            return kept_record(self._store, row, timestamp_ms=-1)
        except RedisUnavailable as error:
            self.away["redis"] = str(error)
            return None

    def _sent(self, row: Row) -> Record | None:
        if "kafka" in self.away:
            return None
        try:
            place = row.topic, row.partition, row.offset
            record = self._reader.read(*place, timeout_s=READ_TIMEOUT_S)
        except KafkaUnavailable as error:
            self.away["kafka"] = str(error)
            return None
        if record is None or payload_sha256(record.key, record.value) != row.payload_sha256:
            return None  # a topic that was made anew has another record there
        return record


class DoubtsToExport:
    """The open doubts that the options choose, as rows of an export.

    Attributes:
        away: why values are not known, by server, once all rows were read.
    """

    def __init__(self, settings: Settings, given: LetterOptions, *, advance: Advance) -> None:
        self._settings = settings
        self._given = given
        self._advance = advance
        self.away: dict[str, str] = {}
        self.unswept = NOTHING_UNSWEPT

    def pages(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows, page by page."""
        settings, read = self._settings, 0
        with ExitStack() as stack:
            doubts = stack.enter_context(Doubts.from_settings(settings))
            redis = stack.enter_context(closing(connect(settings.redis)))
            reader = stack.enter_context(RecordReader(settings.kafka))
            store = StatusStore(redis, settings.kafka.group, settings.redis)
            payloads = PayloadsLeft(store, reader)
            self.unswept = doubts.unswept()
            total = doubts.count()
            for page in doubts.pages():
                chosen = [row for row in page if self._given.filter.takes(as_letter(row))]
                yield [self._row(row, payloads.of(row)) for row in chosen]
                self.away = payloads.away
                read += len(page)
                self._advance(read, max(read, total))

    def _row(self, row: Row, record: Record | None) -> dict[str, Any]:
        return doubt_row(row, record, group=self._settings.kafka.group)


def doubt_row(row: Row, record: Record | None, *, group: str) -> dict[str, Any]:
    """Return all columns of a doubt. Pure."""
    letter = as_letter(row)
    if record is not None:
        time = record.timestamp_ms if record.timestamp_ms >= 0 else None
        original = letter.failure.original._replace(timestamp_ms=time)
        failure = letter.failure._replace(original=original)
        whole = letter.record._replace(value=record.value, headers=record.headers)
        letter = letter._replace(record=whole, failure=failure)
    unknown: Sequence[str] = () if record is not None else _OF_A_PAYLOAD
    nulls = dict.fromkeys((*_OF_A_LETTER, *unknown, "redrive_count"))
    return letter_columns(letter, LetterState.IN_DOUBT) | nulls | {"group": group}
