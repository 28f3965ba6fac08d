"""The outcomes of a worker: each is written until Kafka has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Protocol

from consumer.features.outcomes.news import News
from consumer.features.outcomes.record import ROOM_BYTES, OutcomeRecord
from consumer.features.outgoing import rounds
from consumer.features.outgoing.listener import OUTCOMES, WRITTEN, OutgoingListener
from consumer.features.outgoing.posting import Posted, Posting, Target
from consumer.features.outgoing.rounds import Duty, Rounds
from consumer.handlers.declaration import Handler
from consumer.journal.outcomes import OutcomeRows, OwedOutcome
from consumer.journal.records import Row
from consumer.loop.core import Core
from consumer.loop.feature import Feature
from consumer.loop.mapping import Run
from consumer.loop.settlement import Settlement
from feedback.errors import KafkaUnavailable
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
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
    if not targets:
        return ()
    news = News(targets.keys())
    writer, topics = KafkaWriter(core.settings.kafka), core.kafka_topics()
    # JSON in UTF-8, as the handler's result was measured, and all that stands round it.
    room_bytes = core.settings.worker.max_result_bytes + ROOM_BYTES

    def draft(one: OwedOutcome) -> OutcomeRecord:
        row = one.row
        traceparent = news.traceparent((row.request_id, row.generation))
        return OutcomeRecord(row, targets[row.topic], core.group, traceparent)

    posting = Posting[OwedOutcome](
        kind=OUTCOMES,
        target=lambda topic: Target(targets[topic], room_bytes),
        draft=draft,
        topics=topics,
        writer=writer,
        stopping=lambda: outcomes.is_stopping,
    )
    outcomes = Outcomes(
        rows=core.rows(OutcomeRows),
        posting=posting,
        news=news,
        targets=targets,
        lease_s=core.settings.journal.lease_s,
        may_sweep=core.may_sweep,
        begin=lambda: _prepare(targets, topics, writer, room_bytes),
        close=writer.close,
        listeners=core.made(OutgoingListener),
    )
    return (outcomes,)


def _prepare(
    targets: Mapping[str, str], topics: KafkaTopics, writer: KafkaWriter, room_bytes: int
) -> None:
    """Make the topics before the first outcome, so that readers find them; else it waits."""
    for topic, name in targets.items():
        try:
            topics.ensure(name, like=topic, room_bytes=room_bytes)
            writer.prepare([name])
        except KafkaUnavailable as error:
            log.warning("outcomes.topic_away", topic=topic, reason=str(error))


class Poster(Protocol):
    """Writes a page of outcomes."""

    def post(self, page: Sequence[OwedOutcome]) -> Iterator[Posted]: ...


class Rows(rounds.Rows[OwedOutcome], Protocol):
    """Finds waiting rows."""

    def close_case(self, names: Collection[Run]) -> None: ...


class Outcomes(Feature):
    """Hears of ended requests, and writes their outcomes until stopped.

    Args:
        rows: finds waiting rows; with a connection of its own.
        posting: writes a page of it.
        news: the requests that this worker has just finished.
        targets: the outcome topic of each topic that has one here.
        lease_s: how often to look for rows of dead workers.
        may_sweep: asked with the monotonic time whether the dead can be told from the living.
        begin: called first in the thread.
        close: closes the connections to Kafka, in the thread.
        listeners: hear how many outcomes wait, and the end of each.
    """

    name: ClassVar[str] = OUTCOMES
    stop_s: ClassVar[float] = 2.0

    def __init__(
        self,
        *,
        rows: Rows,
        posting: Poster,
        news: News,
        targets: Mapping[str, str],
        lease_s: float,
        may_sweep: Callable[[float], bool],
        begin: Callable[[], None],
        close: Callable[[], None],
        listeners: Sequence[OutgoingListener] = (),
    ) -> None:
        self._rows = rows
        self._posting = posting
        self._news = news
        self._listeners = listeners
        self._topics = targets.keys()
        duty = Duty(
            kind=OUTCOMES,
            topics=targets.keys(),
            settle=self._settle,
            show=self._show,
            gather_s=GATHER_S,
            begin=begin,
            close=close,
        )
        self._rounds = Rounds(duty, rows=rows, memory=news, lease_s=lease_s, may_sweep=may_sweep)

    @property
    def is_stopping(self) -> bool:
        """Whether the rest is left to the next worker."""
        return self._rounds.is_stopping

    def ended(self, one: Settlement) -> None:
        """Hear how a run ended, as the journal has it."""
        if one.stands and one.finish is not None:
            self._news.ended(one.run, one.delivery.record)

    def never_ran(self, row: Row, record: Record) -> None:
        """Hear of a request that has ended without a run."""
        self._news.ended((row.request_id, row.generation), record)

    answered = never_ran

    def start(self) -> None:
        """Begin to write."""
        self._rounds.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread; waiting rows stay in the journal."""
        self._rounds.stop(timeout_s)

    def look(self) -> None:
        """Write the waiting outcomes now; with the database away the next look does it."""
        self._rounds.look()

    def _show(self, topic: str, count: int, since_s: float) -> None:
        for one in self._listeners:
            one.waiting(OUTCOMES, topic, count, since_s, is_ours=topic in self._topics)

    def _settle(self, page: Sequence[OwedOutcome]) -> Iterator[Posted]:
        for posted in self._posting.post(page):
            runs: list[Run] = [(row.request_id, row.generation) for row in posted.written]
            self._rows.close_case(runs)
            self._news.forget(runs)
            for one in self._listeners:
                one.done(OUTCOMES, WRITTEN, posted.written)
            for topic, count in Counter(row.topic for row in posted.written).items():
                log.debug("outcomes.written", topic=topic, count=count)
            yield posted
