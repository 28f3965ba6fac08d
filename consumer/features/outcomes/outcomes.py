"""The outcomes of a worker: each is written until Kafka has it.

It is made of the row alone, but for the trace context. So a second writer writes the same key and
value.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from consumer.features.outgoing.outgoing_loop import OutgoingLoop
from consumer.features.outgoing.recent_runs import RecentEnds
from consumer.features.outgoing.record_writer import (
    OUTCOMES,
    WRITTEN,
    OutgoingListener,
    OutgoingTarget,
    OwedRecordWriter,
    PageResults,
)
from consumer.handlers.declaration import Handler
from consumer.journal.owed_rows import OutcomeRows
from consumer.journal.records import Row
from consumer.journal.waiting import OwedRow
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.outages import log_outage
from feedback.records.envelope import OUTCOME_ID, REQUEST_ID, TRACEPARENT, Record, outcome_id
from feedback.records.failure_headers import decimal, utf8

STATUS = "onceward-status"
GENERATION = "onceward-generation"
# The most bytes of a record beside key and result, for any names and texts.
ROOM_BYTES = 16_384

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class OutcomeRecord(NamedTuple):
    """An outcome with everything that its record is made of.

    Args:
        traceparent: the trace context of its last sending, where it is known.
    """

    row: Row
    topic: str
    group: str
    traceparent: bytes | None

    @property
    def size_bytes(self) -> int:
        """Its share of a batch in bytes, nearly."""
        return len(self.row.message_key or b"") + len(self.row.result or "")

    def versions(self) -> Iterator[Outgoing]:
        """Yield the record; there is no shorter one, since a result is not to be lost."""
        row = self.row
        # The key decides, as with the request. Without one, a record that is written again is to be
        # in the same partition all the same.
        partition = row.partition if row.message_key is None else None
        value = value_of(row, self.group)
        yield Outgoing(self.topic, partition, row.message_key, value, self._headers())

    def _headers(self) -> tuple[tuple[str, bytes], ...]:
        row = self.row
        headers = (
            (REQUEST_ID, utf8(row.request_id)),
            (STATUS, utf8(row.state)),
            (GENERATION, decimal(row.generation)),
            (OUTCOME_ID, utf8(outcome_id(row.request_id, row.generation))),
        )
        if self.traceparent is None:
            return headers
        return (*headers, (TRACEPARENT, self.traceparent))


def value_of(row: Row, group: str) -> bytes:
    """Return the JSON that says how a request ended, with its result as the handler returned it."""
    facts = {
        "request_id": row.request_id,
        "status": row.state,
        "code": row.code,
        "message": row.message,
        "attempt": row.attempt,
        "generation": row.generation,
        "finished_at": row.finished_at,
        "by": row.by,
        "group": group,
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
    }
    # The result is JSON already: decoded and encoded again it might not be the same number.
    result = "null" if row.result is None else row.result
    return f'{_encode(facts)[:-1]},"result":{result}}}'.encode()


log = EventLog("onceward.outcomes")

# Enough for the finishes of one turn of the loop to be written together.
GATHER_S = 0.01


def outcome_topics(handlers: Iterable[Handler]) -> Mapping[str, str]:
    """Return where the outcomes of each topic go, for those that name an outcome topic."""
    return {one.topic: one.outcome_topic for one in handlers if one.outcome_topic is not None}


def make(core: Core) -> Sequence[Feature]:
    """Return the writer of a worker's outcomes; it connects when it is started."""
    targets = outcome_topics(core.handlers)
    return (Outcomes(core, targets),) if targets else ()


class Outcomes(OutgoingLoop):
    """Hears of ended requests, and writes their outcomes until stopped."""

    name: ClassVar[str] = OUTCOMES
    gather_s: ClassVar[float] = GATHER_S

    def __init__(self, core: Core, targets: Mapping[str, str]) -> None:
        self._group = core.group
        self._targets = targets
        self._ends = RecentEnds(targets.keys())
        self._writer, self._kafka_topics = KafkaWriter(core.settings.kafka), core.kafka_topics()
        # JSON in UTF-8, as the handler's result was measured, and all that stands round it.
        self._room_bytes = core.settings.worker.max_result_bytes + ROOM_BYTES
        super().__init__(
            rows=core.rows(OutcomeRows),
            page_writer=OwedRecordWriter(
                kind=OUTCOMES,
                target=lambda topic: OutgoingTarget(targets[topic], self._room_bytes),
                draft=self._draft,
                topics=self._kafka_topics,
                writer=self._writer,
                stopping=lambda: self.is_stopping,
            ),
            recent=self._ends,
            topics=targets.keys(),
            lease_s=core.settings.journal.lease_s,
            may_sweep=core.may_sweep,
            listeners=core.made(OutgoingListener),
        )

    def ended(self, one: Settlement) -> None:
        if one.stands and one.finish is not None:
            self._ends.ended(one.run, one.delivery.record)

    def never_ran(self, row: Row, record: Record) -> None:
        self._ends.ended((row.request_id, row.generation), record)

    answered = never_ran

    def begin(self) -> None:
        """Make the topics before the first outcome, so that readers find them; else it waits."""
        for topic, name in self._targets.items():
            try:
                self._kafka_topics.ensure(name, like=topic, room_bytes=self._room_bytes)
                self._writer.prepare([name])
            except KafkaUnavailable as error:
                log_outage(log, "outcomes.topic_away", error, topic=topic)

    def settle(self, page: Sequence[OwedRow]) -> Iterator[PageResults]:
        for posted in self._page_writer.post(page):
            self.close_cases(posted.written, WRITTEN)
            for topic, count in Counter(row.topic for row in posted.written).items():
                log.debug("outcomes.written", topic=topic, count=count)
            yield posted

    def _draft(self, one: OwedRow) -> OutcomeRecord:
        row = one.row
        traceparent = self._ends.of((row.request_id, row.generation))
        return OutcomeRecord(row, self._targets[row.topic], self._group, traceparent)
