"""The outcomes of a worker: each is written until Kafka has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from consumer.features.outcomes.recent_ends import RecentEnds
from consumer.features.outcomes.record import ROOM_BYTES, OutcomeRecord
from consumer.features.outgoing.listener import OUTCOMES, WRITTEN, OutgoingListener
from consumer.features.outgoing.posting import Posted, Posting, Target
from consumer.features.outgoing.rounds import Rounds
from consumer.handlers.declaration import Handler
from consumer.journal.outcomes import OutcomeRows
from consumer.journal.records import Row
from consumer.journal.waiting import OwedRow
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from feedback.errors import KafkaUnavailable
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.outages import log_outage
from feedback.records.envelope import Record

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


class Outcomes(Rounds):
    """Hears of ended requests, and writes their outcomes until stopped.

    Args:
        targets: the outcome topic of each topic that has one here.
    """

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
            posting=Posting(
                kind=OUTCOMES,
                target=lambda topic: Target(targets[topic], self._room_bytes),
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

    def settle(self, page: Sequence[OwedRow]) -> Iterator[Posted]:
        for posted in self._posting.post(page):
            self.close_cases(posted.written, WRITTEN)
            for topic, count in Counter(row.topic for row in posted.written).items():
                log.debug("outcomes.written", topic=topic, count=count)
            yield posted

    def _draft(self, one: OwedRow) -> OutcomeRecord:
        row = one.row
        traceparent = self._ends.of((row.request_id, row.generation))
        return OutcomeRecord(row, self._targets[row.topic], self._group, traceparent)
